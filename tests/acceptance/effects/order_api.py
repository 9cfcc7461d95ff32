"""A fake API of orders, which takes each by a POST, at a rate, or misbehaves as the order's name says; it keeps a book.

The first word of an order's name says how its first request is treated, as in `cut-done.17`; later ones are ordinary:

| word | what happens |
|---|---|
| (any other) | the order is taken, and answered with 201 |
| `cut-undone` | the connection is closed, and nothing is done |
| `cut-done` | the order is taken, and the connection is closed without an answer |
| `reset` | the order is taken, and the connection is reset |
| `late` | the connection is closed, and the order is taken LATE_S later |
| `stall` | the order is taken, and answered after the client has given up |
| `half` | the order is taken, and the connection is closed in the middle of the answer's body |
| `error-done` | the order is taken, and answered with 500 |
| `away` | it is answered with 503, and nothing is done; with a Retry-After |
| `busy` | it is answered with 429, and nothing is done |
| `decline` | each request is answered with 402, and nothing is done |

An API that `keeps_keys` answers a second request with the same Idempotency-Key as the first, and takes nothing again;
one that comes meanwhile is answered with 409. GET /book/ORDER says how often it was taken.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Final

from demo.fakes.site_log import Arrival
from tests.acceptance.fetches.recording import CUT, RESET, Request, reply, serving

LATE_S: Final = 0.4
TIMEOUT_S: Final = 0.6  # of the client
STALL_S: Final = 0.9
TAKEN, DECLINED, CONFLICT, BUSY, ERROR, AWAY = 201, 402, 409, 429, 500, 503
WORDS: Final = (
    "cut-undone", "cut-done", "reset", "late", "stall", "half", "error-done", "away", "busy", "decline",
)  # fmt: skip
# Those whose first request gets no answer.
UNANSWERED: Final = ("cut-undone", "cut-done", "reset", "late", "stall")
# What the API has done about a request that it answered with this status.
DONE_BY_STATUS: Final = {TAKEN: 1, ERROR: 1, DECLINED: 0, AWAY: 0}
# What is answered where nothing is done, or not yet; and where the order is taken, unless it is the ordinary answer.
UNDONE: Final = {
    "cut-undone": b"",
    "late": b"",
    "busy": reply(BUSY, "busy", "Retry-After: 1"),
    "away": reply(AWAY, "away", "Retry-After: 1"),
    "decline": reply(DECLINED, "no"),
}
ANSWERS: Final = {
    "cut-done": b"",
    "reset": RESET,
    "half": reply(TAKEN, "taken")[:-2] + CUT,
    "error-done": reply(ERROR, "done all the same"),
}
BOOK: Final = "/book/"


class OrderApi:
    """The book, and what the API knows of keys. Thread-safe."""

    def __init__(self, *, keeps_keys: bool) -> None:
        self.address = ""
        self.arrivals: list[Arrival] = []
        self._keeps_keys = keeps_keys
        self._lock = threading.Lock()
        self._book: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, bytes | None] = {}  # by key; None: it is being handled

    def append(self, arrival: Arrival) -> None:
        """Note the arrival of an order."""
        if not arrival.path.startswith(BOOK):
            self.arrivals.append(arrival)

    def taken(self) -> Counter[str]:
        """Return how often each order was taken."""
        with self._lock:
            return Counter(self._book)

    def answer(self, request: Request) -> bytes:
        """Treat a request; return its answer, RESET, or nothing if the connection is closed."""
        if request.path.startswith(BOOK):
            return reply(200, str(self.taken()[request.path.removeprefix(BOOK)]))
        order, key = request.body.decode(), request.fields.get("idempotency-key", "")
        with self._lock:
            if self._keeps_keys and key in self._answers:
                return self._answers[key] or reply(CONFLICT, "it goes on")
            self._answers[key] = None
            self._asked[order] += 1
            word = order.partition(".")[0]
            is_first = self._asked[order] == 1
        answer = self._treat(word if is_first or word == "decline" else "plain", order, key)
        with self._lock:
            if answer and key in self._answers:
                self._answers[key] = self._answers[key] or answer
        return answer

    def _treat(self, word: str, order: str, key: str) -> bytes:
        if word == "late":
            threading.Timer(LATE_S, self._take, (order, key)).start()
        if word in UNDONE:
            return UNDONE[word] if word in {"away", "decline"} else self._forget(key, UNDONE[word])
        self._take(order, key)
        if word == "stall":
            time.sleep(STALL_S)  # this API is slow
        return ANSWERS.get(word, reply(TAKEN, "taken"))

    def _take(self, order: str, key: str) -> None:
        with self._lock:
            self._book[order] += 1
            self._answers[key] = reply(TAKEN, "taken")

    def _forget(self, key: str, answer: bytes) -> bytes:
        with self._lock:
            if self._answers.get(key) is None:  # it is not taken meanwhile
                self._answers.pop(key, None)
        return answer


@contextmanager
def running(address: str, *, keeps_keys: bool) -> Iterator[OrderApi]:
    """Run an API in threads of this process, at this address."""
    api = OrderApi(keeps_keys=keeps_keys)
    with serving(address, api.answer, api) as api.address:
        yield api


def taken(address: str, order: str) -> int:
    """Ask the API how often it has taken the order. Raises OSError and HTTPException."""
    client = HTTPConnection(address, timeout=1.0)
    try:
        client.request("GET", f"{BOOK}{order}")
        return int(client.getresponse().read())
    finally:
        client.close()
