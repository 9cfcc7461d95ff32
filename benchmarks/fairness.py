"""Fairness: what a site waits for its first request when others have long queues, or hang.

Real processes fetch from fake sites. Each probe is one fetch for a site that nobody has heard of yet; it takes from the
commit that enqueued it until the kernel received the request at the site.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from django.conf import settings
from django.db import connection, transaction

from benchmarks.figures import Figure
from project import embedded, processes
from project.celery import app
from project.demo import gaps, sites
from project.demo.gaps import percentile
from ratelimit import slots
from workers.fetches.enqueue import request_fetches
from workers.fetches.models import HELD, Fetch, State

PROBES = int(os.environ.get("WEIR_BENCH_PROBES", "200"))  # a round
EVERY_S = 0.053  # not in step with beat
BACKLOG = int(os.environ.get("WEIR_BENCH_BACKLOG", "50000"))
BUSY_RATE = "50/s"
BUSY_SITES = 10
STEADY_SITES, STEADY_RATE = 20, "5/s"
HANGING_CONCURRENCY = 16
WARM_UP_S = 4.0
FETCHERS = 2
ROUNDS = 5  # alone, one, several, hanging, alone
HOSTS = BUSY_SITES + STEADY_SITES + 1 + (ROUNDS + 1) * PROBES
HANGING = BUSY_SITES + STEADY_SITES  # the place of the site that hangs; those behind it are probed, once each


class Stage:
    """The sites, and which of them nobody has heard of yet."""

    def __init__(self, running: sites.Sites) -> None:
        self.sites = running
        self._unknown = iter(range(HANGING + 1, HOSTS))

    def probe(self) -> list[float]:
        """Return the milliseconds that each probe of a round took."""
        committed: dict[str, int] = {}
        began = time.monotonic()
        for number in range(PROBES):
            time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
            place = next(self._unknown)
            host = self.sites.hosts[place]
            with transaction.atomic():
                transaction.on_commit(lambda host=host: committed.update({host: time.time_ns()}))
                request_fetches([self.sites.url(place, "/ok")])
        arrived = self._arrivals(committed.keys())
        return [(arrived[host] - at_ns) / 1e6 for host, at_ns in committed.items()]

    def queue(self, places: range, count: int, path: str = "/ok") -> None:
        """Give each of these sites so many fetches."""
        with transaction.atomic():
            for place in places:
                request_fetches(self.sites.url(place, f"{path}/{number}") for number in range(count))

    def forget_queues(self) -> None:
        """Take back what is queued, and wait until what is held has ended."""
        Fetch.objects.filter(state=State.QUEUED).delete()
        _wait_until(lambda: not Fetch.objects.filter(state__in=HELD).exists(), "fetches are still held")

    def rate(self, places: range, lasts_s: float) -> float:
        """Return how many requests a second these sites see, while so much time passes."""
        hosts = {self.sites.hosts[place] for place in places}
        from_ns = time.time_ns()
        time.sleep(lasts_s)
        until_ns = time.time_ns()
        time.sleep(2 * sites.FLUSH_EVERY_S)
        arrivals, _ = gaps.read_log(self.sites.log)
        return sum(a.host in hosts and from_ns <= a.at_ns < until_ns for a in arrivals) / lasts_s

    def requests(self, place: int) -> int:
        """Return how many requests a site has seen so far."""
        arrivals, _ = gaps.read_log(self.sites.log)
        return sum(arrival.host == self.sites.hosts[place] for arrival in arrivals)

    def _arrivals(self, hosts: "set[str] | dict[str, int]") -> dict[str, int]:
        arrived: dict[str, int] = {}

        def all_came() -> bool:
            arrivals, _ = gaps.read_log(self.sites.log)
            arrived.update((arrival.host, arrival.at_ns) for arrival in arrivals if arrival.host in hosts)
            return len(arrived) == len(hosts)

        _wait_until(all_came, "not every probe has come")
        return arrived
