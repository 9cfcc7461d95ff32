"""Two origins for tests of secrets: one that is given a secret and repeats it wherever it can, and one that is not."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Final

from tests.answering import answering

SLOW_S: Final = 2.0  # longer than a test takes to kill the fetcher that asked
CUT: Final = "Content-Length: 100\r\n"


@dataclass(kw_only=True)
class Origin:
    """A server that keeps every byte that it receives."""

    server: ThreadingTCPServer
    received: list[bytes] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its site."""
        host, port = self.server.server_address[:2]
        return f"{host!s}:{port}"

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return f"http://{self.name}{path}"


Answering = Callable[[str, str], bytes]  # returns the bytes of the answer to a path, and to what the Authorization is


def answers(said: str, other: str) -> Mapping[str, bytes]:
    """Return the answer for each path: `said` is the request's Authorization, `other` the URL of another origin."""
    secret = said.rpartition(" ")[2]
    heads = {
        "/ok": f"200 OK\r\nX-You-Said: {said}\r\nSet-Cookie: id={secret}",
        "/same": f"302 {said}\r\nLocation: /ok",
        "/away": f"302 Found\r\nLocation: {other}/landed",
        "/and-back": f"307 Temporary Redirect\r\nLocation: {other}/back",
        "/to-itself": f"302 Found\r\nLocation: /ok?key={secret}",
        "/to-other": f"302 Found\r\nLocation: {other}/ok?key={secret}",
        "/to-nowhere": f"302 Found\r\nLocation: ftp://{secret}/",
        "/reason": f"401 {said}",
        "/challenge": f'401 Unauthorized\r\nWWW-Authenticate: Bearer error="{secret}"',
        "/refusal": f"429 {secret}\r\nRetry-After: {secret}",
        "/quota": f'200 OK\r\nRateLimit: "{secret}";r=0;t=1\r\nRateLimit-Policy: "{secret}";q=1;w=1',
        "/reset": f"403 Forbidden\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: {secret}",
        "/failure": f"500 {secret}\r\nX-Error: {said}",
        "/validators": f'200 OK\r\nETag: "{secret}"\r\nLast-Modified: {secret}',
        "/type": f"200 OK\r\nContent-Type: text/{secret}; charset={secret}",
        "/encoding": f"200 OK\r\nContent-Encoding: {secret}",
        "/transfer": f"200 OK\r\nTransfer-Encoding: {secret}",
        "/length": f"200 OK\r\nContent-Length: {secret}",
        "/name": f"200 OK\r\n{secret}: 1\r\nX-{secret.encode().hex()}: 1",
    }
    made = {path: f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() for path, head in heads.items()}
    made |= {
        "/cut": f"HTTP/1.1 200 OK\r\nX-You-Said: {said}\r\n{CUT}\r\nsome".encode(),
        "/chunks": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{secret}\r\n".encode(),
        "/not-http": f"{said}\r\n\r\n".encode(),
        "/version": f"HTTP/{secret} 200 OK\r\n\r\n".encode(),
        "/status": f"HTTP/1.1 {secret} OK\r\n\r\n".encode(),
        "/line": f"HTTP/1.1 200 OK\r\n{said}\r\n\r\n".encode(),
        "/nothing": b"",
        "/slow": made["/ok"],
    }
    return made


@contextmanager
def running(host: str, respond: Answering) -> Iterator[Origin]:
    """Run an origin on a port of its own; each connection is for one request."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while line := self.rfile.readline(65_536):
                head += line
                if not line.strip():
                    break
            origin.received.append(head)
            lines = head.decode("latin-1").splitlines()
            fields = dict(each.split(": ", 1) for each in lines[1:] if ": " in each)
            path = lines[0].split(" ")[1].partition("?")[0] if lines else "/nothing"
            if path == "/slow":
                time.sleep(SLOW_S)
            self.wfile.write(respond(path, fields.get("Authorization", "")))

    class Server(ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 100

    origin = Origin(server=Server((host, 0), Handler))
    with answering(origin.server):
        yield origin
