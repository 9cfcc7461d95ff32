"""A server of access tokens (RFC 6749, 4.4), and an API that wants one; both count and keep what they got."""

import base64
import json
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlsplit

from demo.fakes.site_server import SO_TIMESTAMPNS, TIMESPEC, kernel_time_ns

CLIENT = {"client_id": "weir+shop", "client_secret": "canary:17 %/ö"}


class TokenRequest(NamedTuple):
    """What the server of tokens was asked."""

    at: float  # time.monotonic()
    headers: Mapping[str, str]
    fields: Mapping[str, list[str]]


class Asked(NamedTuple):
    """What the API was asked, and how it answered."""

    at: float
    path: str
    token: str
    status: int


@dataclass
class Server:
    """Serves `/token` and everything else, at one address.

    `answers` has the next answers of `/token` that are none of its own: a status, headers and a body.
    """

    address: str
    life_s: float = 3_600.0
    pages: int = 0
    answers: list[tuple[int, Mapping[str, str], bytes]] = field(default_factory=list)
    requests: list[TokenRequest] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    issued: dict[str, float] = field(default_factory=dict)  # until when each token counts
    extra: dict[str, Any] = field(default_factory=dict)  # of the server's own answers
    arrivals: list[int] = field(default_factory=list)  # ns: when the kernel received each request

    def __post_init__(self) -> None:
        self.lock = Lock()
        self.server = ThreadingHTTPServer((self.address, 0), _handler(self))
        self.server.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # connections have it, too
        self.name = f"{self.address}:{self.server.server_port}"

    def url(self, path: str) -> str:
        return f"http://{self.name}{path}"

    def described(self, **others: object) -> dict[str, object]:
        """Return how a secret describes the client."""
        return {"token_url": self.url("/token"), **CLIENT, **others}

    def revoke_all(self) -> None:
        self.issued = dict.fromkeys(self.issued, 0.0)

    def token_answer(self, headers: Mapping[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        fields = parse_qs(body.decode())
        with self.lock:
            self.requests.append(TokenRequest(time.monotonic(), headers, fields))
            if self.answers:
                return self.answers.pop(0)
            if fields.get("grant_type") != ["client_credentials"]:
                return _json(400, {"error": "unsupported_grant_type"})
            if _credentials(headers, fields) != (CLIENT["client_id"], CLIENT["client_secret"]):
                return _json(401, {"error": "invalid_client"})
            token = f"token.{len(self.issued)}.{secrets.token_urlsafe(24)}"
            self.issued[token] = time.monotonic() + self.life_s
            said = {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s, **self.extra}
            return _json(200, {name: value for name, value in said.items() if value is not None})

    def page(self, path: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """Answer a page of a list, which names the next page, or a redirect (`/?to=`), to who has a token."""
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        with self.lock:
            status = 200 if self.issued.get(token, 0.0) > time.monotonic() else 401
            self.asked.append(Asked(time.monotonic(), path, token, status))
        repeated = {"X-You-Said": headers.get("Authorization", "")}
        if status != 200:
            return _json(
                status, {"error": "invalid_token"}, {**repeated, "WWW-Authenticate": 'Bearer error="invalid_token"'}
            )
        query = dict(parse_qsl(urlsplit(path).query))
        if "to" in query:
            return 302, {**repeated, "Location": query["to"]}, b""
        page = int(query.get("page", "0"))
        following = self.url(urlsplit(path).path + f"?page={page + 1}") if page + 1 < self.pages else None
        return _json(200, {"orders": [page], "next": following}, repeated)


def _json(
    status: int, said: Mapping[str, object], headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    return status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(said).encode()


def _credentials(headers: Mapping[str, str], fields: Mapping[str, list[str]]) -> tuple[str, str]:
    """Return the id and the secret (RFC 6749, 2.3.1); they may come in one way only."""
    kind, _, encoded = headers.get("Authorization", "").partition(" ")
    if kind == "Basic" and "client_secret" not in fields:
        name, _, secret = base64.b64decode(encoded).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)
    return fields.get("client_id", [""])[0], fields.get("client_secret", [""])[0]


def _handler(served: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            room = socket.CMSG_SPACE(TIMESPEC.size)
            _, ancillary, _, _ = self.connection.recvmsg(65_536, room, socket.MSG_PEEK)
            if (at_ns := kernel_time_ns(ancillary)) is not None:
                served.arrivals.append(at_ns)
            super().handle_one_request()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(*served.token_answer(dict(self.headers.items()), body))

        def do_GET(self) -> None:
            self._answer(*served.page(self.path, dict(self.headers.items())))

        def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    return Handler
