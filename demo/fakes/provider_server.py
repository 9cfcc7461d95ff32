"""The process of the fake provider of e-mail: it accepts e-mails by HTTP, or misbehaves as it is told, and lists them.

The list (`mail_provider` reads it) has one JSON object a line, each written before the client gets the answer.
`POST /emails` is answered as Resend documents it: a request whose `Idempotency-Key` was accepted within its lifetime
has no second effect and the same answer; another request with the same key is refused (409), and so is one while the
first is in progress. The first word of the recipient's address says how the provider treats the e-mail, as in
`late-300.17@example.com`. What happens "the first time" happens to the first request with its key:

| word | what happens |
|---|---|
| (any other) | it is accepted |
| `late-MS` | it is accepted MS milliseconds later |
| `error-unaccepted` | the first time it is discarded, with 500 |
| `error-accepted` | it is accepted; the first time the answer is 500 |
| `cut-unaccepted` | the first time it is discarded, and the connection is cut without an answer |
| `cut-accepted` | it is accepted; the first time the connection is cut without an answer |
| `half-accepted` | it is accepted; the first time the connection is cut within the answer |
| `garbage-accepted` | it is accepted; the first time the answer is not HTTP |
| `nonsense-accepted` | it is accepted; the first time the answer is 200, and not JSON |
| `hang-accepted` | it is accepted; the first time no answer comes while the client waits |
| `trickle-accepted` | it is accepted; the first time the answer comes one byte every 50 ms, and does not end |
| `farewell` | it is accepted, and the connection is closed after the answer without notice |
| `limit-N` | the first N requests for it are refused, with 429 and `retry-after: 2` |
| `quota` | it is refused, with 429 and no retry-after |
| `moved` | it is refused, with 307 and a location |
| `status-N` | it is refused, with this status |
| `refuse` | it is refused, with 422 |
"""

import argparse
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parseaddr
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from demo.fakes.children import die_with_parent
from demo.fakes.files import write_whole
from demo.fakes.mail_server import behaviour

HOST = "127.0.0.1"
API_KEY = "re_fake_123456"
KEY_LIFETIME_S = 86_400.0
LONGEST_KEY = 256
ACCEPTED = "accepted"
TRICKLE_S = 0.05

Answer = tuple[int, dict[str, Any]]


@dataclass(kw_only=True)
class Remembered:
    """A key that was used: for what, when, and the answer if it was accepted."""

    request_hash: str
    at: float
    answer: Answer | None = None


@dataclass(kw_only=True)
class State:
    """What the provider knows, for all connections."""

    record: Path
    api_key: str
    key_lifetime_s: float
    keys: dict[str, Remembered] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)  # requests, by their key and recipient
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: str, key: str, request: dict[str, Any], email_id: str = "") -> None:
        """Add a line to the list."""
        entry = {
            "at_ns": time.time_ns(),
            "event": event,
            "key": key,
            "id": email_id,
            "recipient": recipient(request),
            "message_id": request.get("headers", {}).get("Message-ID", ""),
            "request": request,
        }
        with self.lock, self.record.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def enter(self, key: str, request_hash: str) -> Answer | None:
        """Record that a request with this key is in progress; return its answer if it is not to be processed."""
        with self.lock:
            known = self.keys.get(key)
            if known and known.answer and time.monotonic() - known.at > self.key_lifetime_s:
                known = None
            if known is None:
                self.keys[key] = Remembered(request_hash=request_hash, at=time.monotonic())
                return None
        if known.request_hash != request_hash:
            return error(409, "invalid_idempotent_request", "Same idempotency key used with a different payload.")
        in_progress = error(409, "concurrent_idempotent_requests", "The original request is still in progress.")
        return known.answer or in_progress

    def leave(self, key: str, answer: Answer | None) -> None:
        """Record the answer to an accepted request, or forget the key of a request that was not accepted."""
        with self.lock:
            if answer is None:
                self.keys.pop(key, None)
            else:
                self.keys[key].answer = answer


def recipient(request: Mapping[str, Any]) -> str:
    """Return the address, without the name that may stand before it."""
    return parseaddr(request["to"][0])[1]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: "Provider"

    def do_POST(self) -> None:
        """Answer one request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if refusal := self._refusal(body):
            self._send(*refusal)
            return
        request, state = json.loads(body), self.server.state
        key = self.headers.get("Idempotency-Key") or f"none-{uuid4()}"
        if answer := state.enter(key, hashlib.sha256(body).hexdigest()):
            state.add("asked again", key, request, answer[1].get("id", ""))
            self._send(*answer)
            return
        with state.lock:
            state.asked[key + recipient(request)] += 1
            time_asked = state.asked[key + recipient(request)]
        self._treat(key, request, time_asked)

    def _refusal(self, body: bytes) -> Answer | None:
        """Return what is wrong with the request, whatever the e-mail is."""
        authorization, key = self.headers.get("Authorization"), self.headers.get("Idempotency-Key", "x")
        if self.path != "/emails":
            return error(404, "not_found", "The requested endpoint does not exist.")
        if not authorization:
            return error(401, "missing_api_key", "Missing API key in the authorization header.")
        if authorization != f"Bearer {self.server.state.api_key}":
            return error(403, "invalid_api_key", f"API key {authorization.removeprefix('Bearer ')} is invalid.")
        if not 0 < len(key) <= LONGEST_KEY:
            return error(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        try:
            request = json.loads(body)
            missing = {"from", "to", "subject"} - request.keys() or ({"text", "html"}.isdisjoint(request) and "text")
        except (ValueError, AttributeError):
            return error(400, "validation_error", "The body is no JSON object.")
        return error(422, "missing_required_field", f"Missing: {missing}") if missing else None

    def _treat(self, key: str, request: dict[str, Any], time_asked: int) -> None:
        """Accept the e-mail, or not, as its recipient says."""
        state = self.server.state
        word, number = behaviour(recipient(request))
        if word == "late":
            time.sleep(number / 1000)
        refusal = refused(word, number, time_asked)
        is_first = time_asked == 1
        if refusal or (word.endswith("-unaccepted") and is_first):
            state.leave(key, None)
            state.add(f"refused {refusal[0]}" if refusal else "discarded", key, request)
            self._send(*refusal) if refusal else self._fail(word)
            return
        email_id = str(uuid4())
        state.add(ACCEPTED, key, request, email_id)
        state.leave(key, (200, {"id": email_id}))
        if word.endswith("-accepted") and is_first:
            self._fail(word)
            return
        self._send(200, {"id": email_id})
        self.close_connection = self.close_connection or word == "farewell"

    def _fail(self, word: str) -> None:
        """Answer wrongly, or not at all."""
        match word.partition("-")[0]:
            case "error":
                self._send(*error(500, "application_error", "An unexpected error occurred."))
                return
            case "nonsense":
                self._write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n<html/>\n")
                return
            case "half":
                self._write(b'HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n{"id": "')
            case "garbage":
                self._write(b"\x00\x01 220 mail.example ESMTP\r\n\r\n")
            case "hang":
                self.rfile.read(1)  # until the client gives up
            case "trickle":
                self._trickle()
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _trickle(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"x")
                time.sleep(TRICKLE_S)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        head = [f"HTTP/1.1 {status} Fake", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        if answer.get("name") == "rate_limit_exceeded":
            head.append("retry-after: 2")
        if status == 307:  # noqa: PLR2004  RFC 9110, 15.4.8
            head.append("Location: /elsewhere")
        self._write("\r\n".join([*head, "", ""]).encode() + body)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # the client has gone
            self.wfile.write(data)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing: the list of events is enough."""


class Provider(ThreadingHTTPServer):
    """The listening socket."""

    daemon_threads = True
    request_queue_size = 1_000

    def __init__(self, port: int, state: State) -> None:
        super().__init__((HOST, port), Handler)
        self.state = state

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  socketserver's types
        """Report the error, unless it is only that the client was killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def error(status: int, name: str, message: str) -> Answer:
    """Return an error as the provider words it."""
    return status, {"statusCode": status, "name": name, "message": message}


def refused(word: str, number: int, time_asked: int) -> Answer | None:
    """Return how an e-mail is refused whose recipient begins with this word; None if it is not."""
    if word == "limit" and time_asked <= number:
        return error(429, "rate_limit_exceeded", "Too many requests.")
    if word == "quota":
        return error(429, "daily_quota_exceeded", "You have reached your daily email sending quota.")
    if word == "moved":
        return error(307, "", "")
    if word == "status":
        return error(number, "said_so", "The recipient's address wants it.")
    return error(422, "validation_error", "The recipient is refused.") if word == "refuse" else None


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="Accept e-mails by HTTP, or misbehave as their recipients say.")
    parser.add_argument("--record", type=Path, required=True, help="the list of events; it is appended to")
    parser.add_argument("--ready", type=Path, required=True, help="JSON file, written when the server listens")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--api-key", default=API_KEY, help="the key that lets clients in")
    parser.add_argument("--key-lifetime", type=float, default=KEY_LIFETIME_S, help="of idempotency keys, in seconds")
    arguments = parser.parse_args()
    die_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the connections end with the process
    arguments.record.touch()
    state = State(record=arguments.record, api_key=arguments.api_key, key_lifetime_s=arguments.key_lifetime)
    provider = Provider(arguments.port, state)
    write_whole(arguments.ready, {"port": provider.server_port, "pid": os.getpid()})
    provider.serve_forever()


if __name__ == "__main__":
    main()
