"""A proxy of HTTP, as another program would be: it opens tunnels, passes plain requests on, and may ask who comes."""

import base64
import socket
import socketserver
import time
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Asked(NamedTuple):
    """A request that the proxy got."""

    line: str
    credentials: str  # "" if it has none


class Proxy(socketserver.ThreadingTCPServer):
    """Finds the addresses of hosts in `knows`, or asks the system. Opens a tunnel after `delay_s` seconds."""

    daemon_threads = True

    def __init__(self, address: str, *, credentials: str = "", knows: Mapping[str, str] | None = None) -> None:
        super().__init__((address, 0), _Handler)
        self.place = f"{address}:{self.server_address[1]}"
        self.credentials = credentials
        self.knows = dict(knows or {})
        self.delay_s = 0.0
        self.asked: list[Asked] = []
        self.asked_at: list[float] = []  # when, by the monotonic clock

    def serve_forever(self, poll_interval: float = 0.02) -> None:
        """Look often whether to end."""
        super().serve_forever(poll_interval)


class _Handler(socketserver.StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        with suppress(OSError):
            while self._one():
                pass

    def _one(self) -> bool:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return False
            head += line
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        said = base64.b64decode(fields.pop("proxy-authorization", "").removeprefix("Basic ")).decode()
        self.server.asked.append(Asked(first, said))
        self.server.asked_at.append(time.monotonic())
        if said != self.server.credentials:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return True
        method, target, _ = first.split(" ")
        if method == "CONNECT":
            self._tunnel(target)
            return False
        url = urlsplit(target)
        rest = f"{url.path}{'?' if url.query else ''}{url.query}"
        passed = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        with self._connected(url.netloc) as site:
            site.sendall(f"{method} {rest} HTTP/1.1\r\n{passed}Connection: close\r\n\r\n".encode())
            while data := site.recv(65_536):
                self.wfile.write(data)
        return False

    def _connected(self, place: str) -> socket.socket:
        host, _, port = place.rpartition(":")
        return socket.create_connection((self.server.knows.get(host, host), int(port)), timeout=10)

    def _tunnel(self, place: str) -> None:
        time.sleep(self.server.delay_s)
        with self._connected(place) as site:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = Thread(target=_copy, args=(site, self.connection), daemon=True)
            back.start()
            _copy(self.connection, site)
            back.join(10)


def _copy(of: Any, to: Any) -> None:
    with suppress(OSError):
        while data := of.recv(65_536):
            to.sendall(data)
    for end in (of, to):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
