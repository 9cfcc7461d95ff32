"""A proxy with TLS on another host, as uvicorn sees it: it connects from an address that is not 127.0.0.1."""

import contextlib
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path

ADDRESS = "127.0.0.9"
SELF_SIGNED = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=weir.example "
    f"-addext subjectAltName=IP:{ADDRESS}"
)


class _Request(socketserver.BaseRequestHandler):
    """Hands one request on, with the headers that nginx, Caddy and Traefik add, and the answer back."""

    def handle(self) -> None:
        with (
            contextlib.suppress(ssl.SSLError),
            self.server.tls.wrap_socket(self.request, server_side=True) as client,  # type: ignore[attr-defined]
            socket.create_connection(self.server.web, source_address=(ADDRESS, 0)) as web,  # type: ignore[attr-defined]
        ):
            request = client.makefile("rb")
            head = list(iter(request.readline, b"\r\n"))
            length = sum(int(line.split()[1]) for line in head if line.lower().startswith(b"content-length:"))
            ours = f"X-Forwarded-For: {self.client_address[0]}\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n"
            web.sendall(b"".join([*head, ours.encode(), request.read(length)]))
            while some := web.recv(65_536):
                client.sendall(some)


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A proxy that runs; browsers trust its certificate."""

    port: int
    web: tuple[str, int]
    certificate: Path

    def connection(self, address: str) -> HTTPSConnection:
        """Return a connection of a client that has this address."""
        trust = ssl.create_default_context(cafile=str(self.certificate))
        return HTTPSConnection(ADDRESS, self.port, context=trust, source_address=(address, 0), timeout=20)


@contextlib.contextmanager
def running(web: tuple[str, int], folder: Path) -> Iterator[Proxy]:
    """Run a proxy before the web process at this address; its certificate is written to the folder."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [*SELF_SIGNED.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with socketserver.ThreadingTCPServer((ADDRESS, 0), _Request) as server:
        server.daemon_threads = True
        server.tls, server.web = tls, web  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Proxy(port=server.server_address[1], web=web, certificate=certificate)
        server.shutdown()
