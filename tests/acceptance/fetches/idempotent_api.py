"""An API with idempotency keys, as draft-ietf-httpapi-idempotency-key-header-07 describes it, on a bad line.

A request does its work once for each key. It is answered again from memory if it comes again, with 409 while the first
one still goes on, with 422 if it is another one, with 400 if it has no key. Some requests are read and get no answer:
the connection is closed before or after the work is done.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from demo.fakes.site_log import Arrival
from tests.acceptance.fetches.recording import Request, reply, serving

SLOW_S = 2.0  # how long the work of a slow request takes; it goes on when its connection is closed


@dataclass
class IdempotentApi:
    """What the API knows: the work it has done, by key, and the requests it got."""

    chance: random.Random
    effects: Counter[str] = field(default_factory=Counter)  # by the text of a request, how often its work was done
    by_key: dict[str, tuple[bytes, bytes]] = field(
        default_factory=dict
    )  # the request's body; the answer, once there is
    arrivals: list[Arrival] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)  # 0: the connection was closed without an answer
    going_on: list[threading.Timer] = field(default_factory=list)  # the work of slow requests
    lock: threading.Lock = field(default_factory=threading.Lock)
    address: str = ""

    def answer(self, method: str, key: str, body: bytes) -> bytes:
        """Do what the request asks for, and return the answer; empty if the connection is closed instead."""
        with self.lock:
            if not key:
                return reply(400, "no Idempotency-Key")
            known = self.by_key.get(key)
            if known is not None:
                known_body, answer = known
                if known_body != body:
                    return reply(422, "another request had this key")
                return self._maybe(answer or reply(409, "the first request still goes on"))
            if self.chance.random() < 0.1:
                return b"" if self.chance.random() < 0.5 else reply(500, "not now")
            self.by_key[key] = (body, b"")
            is_slow = self.chance.random() < 0.1
        if is_slow:
            late = threading.Timer(SLOW_S, self._work, (method, key, body))
            self.going_on.append(late)
            late.start()
            return b""
        return self._maybe(self._work(method, key, body))

    def _work(self, method: str, key: str, body: bytes) -> bytes:
        with self.lock:
            self.effects[body.decode()] += 1
            answer = reply(201, f"{method} {len(self.effects)}")
            self.by_key[key] = (body, answer)
        return answer

    def _maybe(self, answer: bytes) -> bytes:
        return b"" if self.chance.random() < 0.2 else answer


@contextmanager
def running(address: str, seed: str) -> Iterator[IdempotentApi]:
    """Let the API answer at this address, on a port of its own."""
    api = IdempotentApi(random.Random(seed))  # noqa: S311  which requests it treats badly

    def answer(request: Request) -> bytes:
        answer = api.answer(request.method, request.fields.get("idempotency-key", ""), request.body)
        with api.lock:
            api.statuses[int(answer.split(b" ")[1]) if answer else 0] += 1
        return answer

    with serving(address, answer, api.arrivals) as api.address:
        yield api
        for work in api.going_on:
            work.join()
