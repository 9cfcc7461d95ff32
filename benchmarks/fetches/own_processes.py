"""Weir's own processes for a benchmark: a worker for the ticks, fetchers and beat."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from benchmarks import broker
from project.celery import app
from project.processes import procfile

FETCHERS = 2


def empty() -> None:
    """Delete all fetches, slots and sites, and the messages about them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site CASCADE"
        )
    broker.empty()


@contextmanager
def running(log: Path, fetchers: int = FETCHERS) -> Iterator[procfile.Processes]:
    """Run the processes, which write to `log`; the workers answer when the block is entered."""
    counts = {"ticks": 1, "fetcher": fetchers, "beat": 1}
    with procfile.running(dict(os.environ), counts=counts, log=log) as weir:
        weir.wait_until(lambda: procfile.workers_answer(app, weir.workers), "the workers do not answer")
        yield weir
