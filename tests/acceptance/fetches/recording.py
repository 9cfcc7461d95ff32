"""A small HTTP server for fake APIs: it notes when the kernel received each request."""

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Final, NamedTuple, Protocol

from demo.fakes.site_log import Arrival
from demo.fakes.site_server import SO_TIMESTAMPNS, TIMESPEC, kernel_time_ns
from tests.answering import answering

CUT: Final = b"\0cut"  # after a part of an answer: the connection is closed
RESET: Final = b"reset"  # in place of an answer: the connection is reset


class Request(NamedTuple):
    """A request as an API gets it."""

    method: str
    path: str
    fields: Mapping[str, str]  # by name, in lower case
    body: bytes


class Noted(Protocol):
    """Where arrivals are noted, such as a list."""

    def append(self, arrival: Arrival, /) -> None:
        """Note one."""


def reply(status: int, text: str, *fields: str) -> bytes:
    """Return the bytes of an answer with these header lines."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} Said", *fields, f"Content-Length: {len(text)}"))
    return f"{head}\r\n{text}".encode()


@contextmanager
def serving(address: str, answer: Callable[[Request], bytes], arrivals: Noted, port: int = 0) -> Iterator[str]:
    """Let `answer` give the answers at this address, and yield it with its port; an empty one closes the connection."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                place = 1
                while answered := self._one(place):
                    if answered == RESET:
                        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        self.request.close()
                        return
                    self.request.sendall(answered.removesuffix(CUT))
                    if answered.endswith(CUT):
                        return
                    place += 1

        def _one(self, place: int) -> bytes:
            """Read one request, and return its answer; empty at the end of the connection."""
            data, at_ns = b"", None
            while b"\r\n\r\n" not in data or len(data) < _size(data):
                read, ancillary, _, _ = self.request.recvmsg(65_536, socket.CMSG_SPACE(TIMESPEC.size))
                if not read:
                    return b""
                at_ns = at_ns or kernel_time_ns(ancillary)
                data += read
            head, _, body = data.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            method, path, _ = first.split(" ")
            assert at_ns, "the kernel gives each read a time"
            arrivals.append(Arrival(at_ns=at_ns, host=address, path=path, place=place))
            return answer(Request(method, path, fields, body))

    class Server(ThreadingTCPServer):
        daemon_threads, block_on_close, allow_reuse_address = True, False, True
        request_queue_size = 128

        def server_bind(self) -> None:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # accepted sockets inherit it
            super().server_bind()

    with answering(Server((address, port), Handler)) as server:
        yield f"{address}:{server.server_address[1]}"


def _size(data: bytes) -> int:
    head, _, _ = data.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return len(head) + 4 + int(length or b"0")
