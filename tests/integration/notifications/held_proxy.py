"""A network between this process and its Redis that can hold back what is sent."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

SMALL = 4_096  # bytes that the proxy's side of a connection takes while they are not read


class HeldProxy:
    """Forwards bytes from TCP to a Unix socket, and back; while it `holds`, nothing goes to the socket.

    A held chunk was read, so the sender's kernel does not have it any more. A proxy that does not `read` leaves the
    bytes in the network.
    """

    def __init__(self, path: str, *, reads: bool) -> None:
        self.answers = 0
        self._path, self._reads = path, reads
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._serve, daemon=True).start()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.let_go()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._path)
                threading.Thread(target=self._hand_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._hand_back, args=(server, client), daemon=True).start()

    def _hand_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                if not self._reads:
                    self._open.wait()
                chunk = client.recv(SMALL)
                self._open.wait()
                if not chunk:
                    break
                server.sendall(chunk)
        server.shutdown(socket.SHUT_WR)

    def _hand_back(self, server: socket.socket, client: socket.socket) -> None:
        while chunk := server.recv(65_536):
            self.answers += 1
            with suppress(OSError):  # the client is gone
                client.sendall(chunk)
        client.close()


@contextmanager
def held_proxy(path: str, **how: Any) -> Iterator[HeldProxy]:
    proxy = HeldProxy(path, **how)
    try:
        yield proxy
    finally:
        proxy.close()
