"""The HTTP API: what asking for URLs over it costs, against calling `request_fetches` in the same process.

One web process, as the Procfile starts it, and programs that keep their connections. The sides take turns. Each request
opens a connection to PostgreSQL, which costs some 15 ms; with two programs at the same time, one is served meanwhile.
"""

import http.client
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from django.db import connection

from benchmarks import rounds
from benchmarks.fetches import own_processes
from benchmarks.figures import Figure
from benchmarks.tabs import web
from benchmarks.tabs.polling import HOST
from demo.fakes.judge import percentile
from weir.api.tokens import actions
from weir.api.tokens.models import Token
from weir.api.tokens.scopes import ADD_FETCHES, SEE_FETCHES
from weir.workers.audit import acting
from weir.workers.fetches.enqueue import request_fetches

URLS: Final = 1_000  # of one call, at SITES sites
SITES: Final = 50
ROUNDS: Final = 15
PROGRAMS: Final = 4
SINGLE_S: Final = 8.0  # seconds for which programs ask for one URL after the other

_numbers = count()


def measure(folder: Path) -> list[Figure]:
    """Return the rates of both sides, and how long a program waits for an answer."""
    own_processes.empty()
    Token.objects.filter(name="bench").delete()
    created = actions.create(acting.of_shell("bench"), "bench", [ADD_FETCHES, SEE_FETCHES], rate="1000/s", burst=10_000)
    connection.close()
    with web.running(folder / "api.log", {}) as running:
        caller = partial(Caller, running.port, created.secret)
        programs = [caller(), caller()]
        sides = (_directly, partial(_over_http, programs[:1]), partial(_over_http, programs))
        rounds.take_turns(2, *sides)
        turns = rounds.take_turns(ROUNDS, *sides)
        posts_ms = _in_parallel(lambda: _one_after_the_other(caller(), lambda it: it.post(_urls(1))))
        [fetch] = caller().post(_urls(1))["fetches"]
        gets_ms = _in_parallel(lambda: _one_after_the_other(caller(), lambda it: it.get(f"/fetches/{fetch['id']}")))
    Token.objects.filter(name="bench").delete()
    return [
        Figure(name="api_direct", value=rounds.middle(turns, 0), unit="fetches/s"),
        Figure(name="api_post_1000", value=rounds.middle(turns, 1), unit="fetches/s"),
        Figure(name="api_post_1000_of_direct", value=rounds.ratio(turns, 1, 0), unit="x"),
        Figure(name="api_post_1000_by_two", value=rounds.middle(turns, 2), unit="fetches/s"),
        Figure(name="api_post_1000_by_two_of_direct", value=rounds.ratio(turns, 2, 0), unit="x"),
        *_figures("api_single_post", posts_ms),
        *_figures("api_get", gets_ms),
    ]


class Caller:
    """A program with one connection, which it keeps."""

    def __init__(self, port: int, secret: str) -> None:
        self._to = http.client.HTTPConnection(HOST, port, timeout=30)
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}

    def post(self, urls: list[str]) -> Any:  # noqa: ANN401  JSON
        return self._call("POST", "/fetches", json.dumps({"urls": urls}).encode())

    def get(self, path: str) -> Any:  # noqa: ANN401  as above
        return self._call("GET", path)

    def _call(self, method: str, path: str, body: bytes | None = None) -> Any:  # noqa: ANN401  as above
        self._to.request(method, f"/api/v1{path}", body, self._headers)
        answer = self._to.getresponse()
        content = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{answer.status}: {content.decode()}")
        return json.loads(content)


def _directly() -> float:
    return rounds.rate(URLS, lambda: request_fetches(_urls(URLS)))


def _over_http(programs: Sequence[Caller]) -> float:
    """Return the rate of programs that each ask once, at the same time."""

    def ask() -> None:
        with ThreadPoolExecutor(len(programs)) as pool:
            list(pool.map(lambda program: program.post(_urls(URLS)), programs))

    return rounds.rate(URLS * len(programs), ask)


def _one_after_the_other(caller: Caller, ask: Callable[[Caller], object]) -> list[float]:
    """Return how many milliseconds each request took."""
    took_ms = []
    end = time.perf_counter() + SINGLE_S
    while (began := time.perf_counter()) < end:
        ask(caller)
        took_ms.append((time.perf_counter() - began) * 1_000)
    return took_ms


def _in_parallel(work: Callable[[], list[float]]) -> list[float]:
    with ThreadPoolExecutor(PROGRAMS) as pool:
        return [took for of_one in pool.map(lambda _number: work(), range(PROGRAMS)) for took in of_one]


def _figures(name: str, took_ms: list[float]) -> list[Figure]:
    return [
        Figure(name=f"{name}s", value=len(took_ms) / SINGLE_S, unit="requests/s"),
        Figure(name=f"{name}_p50", value=percentile(took_ms, 50), unit="ms"),
        Figure(name=f"{name}_p99", value=percentile(took_ms, 99), unit="ms"),
    ]


def _urls(number: int) -> list[str]:
    return [f"https://site-{next(_numbers) % SITES}.example/{next(_numbers)}" for _ in range(number)]
