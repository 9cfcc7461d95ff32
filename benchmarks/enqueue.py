"""Enqueues a second by one process: `request_fetch` and `request_fetches` beside Celery's `delay` and Django's ORM.

Each call commits, or sends. Weir finds the site of each URL, stores a row and tells dispatch; Celery's side sends a
message for each URL to Valkey, over the connection that it keeps; Django's stores rows of the same table, whose site it
knows, by `bulk_create` or `create`, and notifies no process.
"""

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from celery import Celery, Task
from django.conf import settings

from benchmarks.fetches import own_processes
from benchmarks.figures import Figure
from benchmarks.rounds import Side, middle, rate, ratio, take_turns
from weir.ratelimit.sites import sites_of
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch

HOSTS: Final = [f"site-{number}.bench" for number in range(50)]
AT_ONCE: Final = 1_000
SINGLE: Final = 200  # a round
ROUNDS: Final = int(os.environ.get("WEIR_BENCH_ROUNDS", "15"))

_numbers = count()


def measure(_folder: Path) -> list[Figure]:
    """Return the rates and their ratios, for many URLs a call and for one."""
    own_processes.empty()
    delay, sites = _delay(), sites_of(set(HOSTS))
    many: dict[str, Callable[[list[str]], object]] = {
        "enqueue_1000": request_fetches,
        "enqueue_1000_celery": lambda urls: [delay(url) for url in urls],
        "enqueue_1000_bulk_create": lambda urls: Fetch.objects.bulk_create(_rows(sites, urls)),
    }
    one: dict[str, Callable[[list[str]], object]] = {
        "enqueue_one": lambda urls: [request_fetch(url) for url in urls],
        "enqueue_one_celery": many["enqueue_1000_celery"],
        "enqueue_one_create": lambda urls: [Fetch.objects.create(**columns) for columns in _columns(sites, urls)],
    }
    figures = [*_compare(many, AT_ONCE), *_compare(one, SINGLE)]
    own_processes.empty()
    return figures


def _compare(calls: dict[str, Callable[[list[str]], object]], urls: int) -> list[Figure]:
    """Return the rate of each side, and the ratios of the first one to the others."""
    ours, *_ = names = list(calls)
    sides = [_side(call, urls) for call in calls.values()]
    take_turns(1, *sides)  # connections are opened
    rounds = take_turns(ROUNDS, *sides)
    return [
        *(Figure(name=name, value=middle(rounds, side), unit="fetches/s") for side, name in enumerate(names)),
        *(
            Figure(name=name.replace(ours, f"{ours}_vs"), value=ratio(rounds, 0, side), unit="x")
            for side, name in enumerate(names)
            if side
        ),
    ]


def _side(call: Callable[[list[str]], object], urls: int) -> Side:
    def once() -> float:
        numbers = [next(_numbers) for _ in range(urls)]
        given = [f"http://{HOSTS[number % len(HOSTS)]}/{number}" for number in numbers]
        return rate(urls, partial(call, given))

    return once


def _delay() -> Callable[[str], object]:
    """Return the `delay` of a task that no worker has, in an app that stores no results."""
    app = Celery("peer", broker=settings.CELERY_BROKER_URL, set_as_current=False)
    app.conf.update(task_default_queue="peer", task_ignore_result=True)

    def fetch(url: str) -> None:
        raise AssertionError(f"a worker was to fetch {url}")

    task: Task[[str], None] = app.task(fetch)
    return task.delay


def _columns(sites: dict[str, int], urls: list[str]) -> list[dict[str, Any]]:
    return [{"url": url, "hop_url": url, "site_id": sites[url.split("/")[2]]} for url in urls]


def _rows(sites: dict[str, int], urls: list[str]) -> list[Fetch]:
    return [Fetch(**columns) for columns in _columns(sites, urls)]
