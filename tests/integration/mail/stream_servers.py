"""Mail servers of a test's own: each accepts, refuses all, is silent or slow, and says what it accepted."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from demo.fakes.mail_server import HOST

_ID = re.compile(rb"^Message-ID:\s*(\S+)", re.MULTILINE | re.IGNORECASE)
REFUSAL = "550 5.7.1 Sending paused for this account"
PATIENCE_S = 60.0  # of a server that is silent or slow; a test's end is not waited for


class Manner(Enum):
    """How a server treats its clients."""

    ACCEPTS = "accepts"
    REFUSES = "refuses every sender"
    SILENT = "accepts connections, and never greets"
    SLOW = "never answers the dot"
    LOSES = "accepts, and cuts the connection without an answer"


@dataclass(kw_only=True)
class StreamServer:
    """A mail server that is running."""

    port: int
    manner: Manner = Manner.ACCEPTS
    accepted: list[str] = field(default_factory=list)  # Message-IDs
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """What a relay of this URL is called."""
        return f"{HOST}:{self.port}"

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep its clients waiting, until the end of the block."""
        try:
            yield
        finally:
            self.released.set()

    def serve(self, peer: socket.socket) -> None:
        """Talk to one client, until it goes."""
        with peer, peer.makefile("rb") as lines:
            if self.manner is Manner.SILENT:
                self.released.wait(PATIENCE_S)
                return
            peer.sendall(b"220 mail.example\r\n")
            for line in lines:
                command = line[:4].upper()
                if command == b"DATA":
                    peer.sendall(b"354 Go ahead\r\n")
                    if not self._received(_content(lines)):
                        return
                refused = command == b"MAIL" and self.manner is Manner.REFUSES
                peer.sendall(f"{REFUSAL}\r\n".encode() if refused else b"250 OK\r\n")

    def _received(self, content: bytes) -> bool:
        """Record what was accepted; return whether the client gets a reply."""
        if self.manner is Manner.SLOW:
            self.released.wait(PATIENCE_S)
        found = _ID.search(content)
        self.accepted.append(found[1].decode() if found else "")
        return self.manner is not Manner.LOSES


def _content(lines: Iterator[bytes]) -> bytes:
    found: list[bytes] = []
    for line in lines:
        if line == b".\r\n":
            break
        found.append(line)
    return b"".join(found)


@contextmanager
def stream_server(port: int = 0) -> Iterator[StreamServer]:
    """Run a mail server in a thread; `port` 0 picks a free one."""

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(server, peer), daemon=True).start()

    with socket.create_server((HOST, port)) as listener:
        server = StreamServer(port=listener.getsockname()[1])
        threading.Thread(target=accept, daemon=True).start()
        yield server
        server.released.set()
        listener.shutdown(socket.SHUT_RDWR)


def dead_port() -> int:
    """Return a port at which nothing listens."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _quietly(server: StreamServer, peer: socket.socket) -> None:
    with suppress(OSError):  # the client has gone
        server.serve(peer)
