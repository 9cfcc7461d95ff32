"""A fake payment API, over HTTP, which does refunds, or misbehaves as the order's name says, and keeps a book of them.

The first word of an order's name says how its first request is treated, as in `cut-done.17`; later ones are ordinary:

| word | what happens |
|---|---|
| (any other) | the refund is done, and answered with 200 |
| `cut-undone` | the connection is cut, and nothing is done |
| `cut-done` | the refund is done, and the connection is cut without an answer |
| `late` | the connection is cut, and the refund is done LATE_S later |
| `stall` | the refund is done, and answered after the client has given up |
| `slow` | the refund is done, and answered SLOW_S later |
| `error-done` | the refund is done, and answered with 500 |
| `busy` | it is answered with 429, and nothing is done |
| `decline` | each request is answered with 402, and nothing is done |

An API that `keeps_keys` answers a second request with the same Idempotency-Key as the first, and does nothing again;
one that comes meanwhile is answered with 409. After `keys_forgotten` it does. GET /refunds/ORDER says what was done.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

HOST: Final = "127.0.0.1"
LATE_S: Final = 1.2
STALL_S: Final = 1.2
SLOW_S: Final = 0.6
TIMEOUT_S: Final = 0.8  # of a client
DONE, TOO_MANY, DECLINED, CONFLICT, ERROR = 200, 429, 402, 409, 500
WORDS: Final = ("plain", "cut-undone", "cut-done", "late", "stall", "slow", "error-done", "busy", "decline")


class PaymentApi:
    """The book, and what the API knows of keys. Thread-safe."""

    def __init__(self, *, keeps_keys: bool) -> None:
        self.port = 0
        self._keeps_keys = keeps_keys
        self._lock = threading.Lock()
        self._book: list[str] = []  # the orders, in the order in which they were refunded
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, int | None] = {}  # by key; None: it is being handled

    def refunds(self) -> Counter[str]:
        """Return how often each order was refunded."""
        with self._lock:
            return Counter(self._book)

    def forget_keys(self) -> None:
        """Forget all keys, as such an API does after a day."""
        with self._lock:
            self._answers.clear()

    def known(self, key: str) -> int | None:
        """Return the answer to an earlier request with this key; CONFLICT if it is being handled; None: there is none.

        If there is none, the key is being handled from now on.
        """
        with self._lock:
            if not (self._keeps_keys and key):
                return None
            if key in self._answers:
                return self._answers[key] or CONFLICT
            self._answers[key] = None
            return None

    def learn(self, key: str, status: int | None) -> None:
        """Keep the answer to this key; None: there was none, and nothing was done."""
        with self._lock:
            if status is None or status == TOO_MANY:
                self._answers.pop(key, None)
            elif self._keeps_keys and key:
                self._answers[key] = status

    def word(self, order: str) -> str:
        """Return how this request for the order is treated."""
        with self._lock:
            self._asked[order] += 1
            word = order.partition(".")[0]
            return word if word == "decline" or self._asked[order] == 1 else "plain"

    def refund(self, order: str) -> None:
        """Do it, and write it down."""
        with self._lock:
            self._book.append(order)


class _Handler(BaseHTTPRequestHandler):
    api: PaymentApi

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["order"]
        key = self.headers.get("Idempotency-Key", "")
        known = self.api.known(key)
        if known is not None:
            self._answer(known if known != ERROR else DONE)  # what was answered with 500 was done
            return
        status, cuts, wait_s = self._treat(order)
        self.api.learn(key, status)
        if wait_s:
            time.sleep(wait_s)  # this API is slow
        if not cuts and status:
            self._answer(status)

    def do_GET(self) -> None:
        order = self.path.rpartition("/")[2]
        self._answer(DONE, {"refunds": self.api.refunds()[order]})

    def _treat(self, order: str) -> tuple[int | None, bool, float]:
        """Treat the first request of a key. Return its status, whether the connection is cut, and how long it takes."""
        match self.api.word(order):
            case "cut-undone":
                return None, True, 0.0
            case "busy":
                return TOO_MANY, False, 0.0
            case "decline":
                return DECLINED, False, 0.0
            case "late":
                self.connection.shutdown(2)
                time.sleep(LATE_S)  # the client has lost the connection meanwhile
                self.api.refund(order)
                return DONE, True, 0.0
            case word:
                self.api.refund(order)
                waits_s = {"stall": STALL_S, "slow": SLOW_S}.get(word, 0.0)
                return ERROR if word == "error-done" else DONE, word == "cut-done", waits_s

    def _answer(self, status: int, body: dict[str, Any] | None = None) -> None:
        content = json.dumps(body or {}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: object) -> None:
        """Say nothing of clients that are killed."""


@contextmanager
def running(*, keeps_keys: bool = True) -> Iterator[PaymentApi]:
    """Run an API in threads of this process."""
    api = PaymentApi(keeps_keys=keeps_keys)
    server = _Server((HOST, 0), type("Handler", (_Handler,), {"api": api}))
    api.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def post(port: int, order: str, key: str = "") -> int:
    """Ask for a refund; return the status. Raises OSError and HTTPException."""
    client = HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        client.request("POST", "/refunds", json.dumps({"order": order}), {"Idempotency-Key": key} if key else {})
        return client.getresponse().status
    finally:
        client.close()


def refunds(port: int, order: str) -> int:
    """Ask how often the order was refunded. Raises OSError and HTTPException."""
    client = HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        client.request("GET", f"/refunds/{order}")
        return int(json.loads(client.getresponse().read())["refunds"])
    finally:
        client.close()
