"""Fairness: how long a site waits for its first request while other sites have long queues, or hang.

Real processes fetch from fake sites. A probe is one fetch for a site that has no row yet. Its time runs from the commit
that enqueued it until the site's kernel received the request.
"""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.db import transaction
from django.db.models.functions import Now

from benchmarks.fetches import own_processes
from benchmarks.figures import Figure
from demo.fakes import judge, site_log, sites
from demo.fakes.judge import percentile
from weir.conf import settings
from weir.ratelimit import site_settings
from weir.ratelimit.models import Slot
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import HELD, Fetch, FetchState

PROBES = int(os.environ.get("WEIR_BENCH_PROBES", "200"))  # a round
BACKLOG = int(os.environ.get("WEIR_BENCH_BACKLOG", "50000"))
EVERY_S = 0.053  # between two probes; not a divisor of a second, so that they are not in step with beat
ROUNDS = 5  # of probes
WARM_UP = 20  # probes that do not count: processes open connections and import what they need
PATIENCE_S = 60.0

# The places of the sites in the list of all.
BUSY, BUSY_RATE = range(10), "50/s"
STEADY, STEADY_RATE, STEADY_FOR_S = range(10, 30), "5/s", 10.0
HANGING, HANGING_RATE, HANGING_CONCURRENCY = 30, "50/s", 16
UNKNOWN = range(31, 31 + WARM_UP + ROUNDS * PROBES)  # sites without a row, one for each probe
A_HANGING_PATH = "/slow/3600000"


@dataclass(frozen=True, kw_only=True)
class Round:
    """How long each probe took, and how many of their slots were missed because the holder came too late."""

    took_ms: list[float]
    missed_slots: int

    def __add__(self, other: "Round") -> "Round":
        return Round(took_ms=self.took_ms + other.took_ms, missed_slots=self.missed_slots + other.missed_slots)


class Scene:
    """The running sites; those without a row are probed one after the other."""

    def __init__(self, running: sites.Sites) -> None:
        self._sites = running
        self._unknown = iter(UNKNOWN)

    def probe(self, probes: int = PROBES) -> Round:
        """Enqueue the first fetch of this many sites, one after the other."""
        committed: dict[str, int] = {}
        reserved = Slot.objects.filter(site__name__in=(self._site(place) for place in UNKNOWN))
        already = reserved.count()
        began = time.monotonic()
        for number in range(probes):
            time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
            place = next(self._unknown)
            with transaction.atomic():
                transaction.on_commit(partial(_note_time, committed, self._sites.hosts[place]))
                request_fetches([self._sites.url(place, "/ok")])
        arrived = self._first_requests(committed)
        return Round(
            took_ms=[(arrived[host] - at_ns) / 1e6 for host, at_ns in committed.items()],
            missed_slots=reserved.count() - already - probes,
        )

    def set_rates(self, places: Collection[int], rate: str, max_concurrency: int | None = None) -> None:
        """Set the rate of the sites at these places, which gives them a row."""
        for place in places:
            site_settings.set_rate(self._site(place), rate, max_concurrency=max_concurrency)

    def queue(self, places: Collection[int], count: int, path: str = "/ok") -> None:
        """Enqueue `count` fetches for each of these sites."""
        with transaction.atomic():
            request_fetches(self._sites.url(place, f"{path}?{number}") for place in places for number in range(count))

    def rate(self, places: Collection[int], lasts_s: float) -> float:
        """Return the requests a second that these sites receive, measured over `lasts_s` seconds."""
        from_ns = time.time_ns()
        time.sleep(lasts_s)
        until_ns = time.time_ns()
        time.sleep(site_log.READ_WITHIN_S)
        return sum(from_ns <= arrival.at_ns < until_ns for arrival in self._requests(places)) / lasts_s

    def requests(self, place: int) -> int:
        """Return how many requests a site has received so far."""
        return len(self._requests([place]))

    def is_held_up(self) -> bool:
        """Return whether the site that hangs has as many requests in flight as it may."""
        return self.requests(HANGING) >= HANGING_CONCURRENCY

    def _site(self, place: int) -> str:
        return f"{self._sites.hosts[place]}:{self._sites.port}"

    def _requests(self, places: Collection[int]) -> list[site_log.Arrival]:
        hosts = {self._sites.hosts[place] for place in places}
        return [arrival for arrival in site_log.read_arrivals(self._sites.log)[0] if arrival.host in hosts]

    def _first_requests(self, hosts: Collection[str]) -> dict[str, int]:
        arrived: dict[str, list[int]] = {}

        def all_came() -> bool:
            arrived.update(judge.times_by_host(site_log.read_arrivals(self._sites.log)[0]))
            return all(host in arrived for host in hosts)

        _wait_until(all_came, "not every probe has come")
        return {host: arrived[host][0] for host in hosts}


def measure(folder: Path) -> list[Figure]:
    """Return how long probes took alone, beside one queue, beside ten, and beside a site that hangs."""
    own_processes.empty()
    place = folder / "fairness"
    place.mkdir(parents=True, exist_ok=True)
    (place / "requests.log").unlink(missing_ok=True)
    with sites.running(UNKNOWN.stop, place) as running, own_processes.running(place / "weir.log"):
        scene = Scene(running)
        scene.set_rates(BUSY, BUSY_RATE)
        scene.probe(WARM_UP)
        alone = scene.probe()
        scene.queue(BUSY[:1], BACKLOG)
        beside_one = scene.probe()
        scene.queue(BUSY[1:], BACKLOG // 10)
        beside_ten = scene.probe()
        _forget_queues()
        alone += scene.probe()
        figures = [*_delays("alone", alone), *_delays("beside_one", beside_one, alone)]
        return [*figures, *_delays("beside_ten", beside_ten, alone), *_hanging(scene, alone)]


def _hanging(scene: Scene, alone: Round) -> list[Figure]:
    """Return what a site that never answers costs sites with work, and probes."""
    scene.set_rates(STEADY, STEADY_RATE)
    scene.set_rates([HANGING], HANGING_RATE, HANGING_CONCURRENCY)
    scene.queue(STEADY, 1_000)
    time.sleep(settings.WEIR_LOOKAHEAD)  # until dispatch reserves at each site's own rate
    before = scene.rate(STEADY, STEADY_FOR_S)
    scene.queue([HANGING], 1_000, A_HANGING_PATH)
    _wait_until(scene.is_held_up, "the site that hangs gets no requests")
    beside = scene.rate(STEADY, STEADY_FOR_S)
    return [
        Figure(name="fairness_steady_rate_alone", value=before, unit="requests/s"),
        Figure(name="fairness_steady_rate_beside_hanging", value=beside, unit="requests/s"),
        *_delays("beside_hanging", scene.probe(), alone),
        Figure(name="fairness_requests_to_hanging", value=scene.requests(HANGING), unit="requests"),
    ]


def _delays(what: str, found: Round, alone: Round | None = None) -> list[Figure]:
    figures = []
    for q in (50, 99):
        value = percentile(found.took_ms, q)
        figures.append(Figure(name=f"fairness_first_start_{what}_p{q}", value=value, unit="ms"))
        if alone:
            more = value - percentile(alone.took_ms, q)
            figures.append(Figure(name=f"fairness_delay_{what}_p{q}", value=more, unit="ms"))
    return [*figures, Figure(name=f"fairness_missed_slots_{what}", value=found.missed_slots, unit="slots")]


def _forget_queues() -> None:
    queued = Fetch.objects.filter(state=FetchState.QUEUED)
    ended = {"state": FetchState.CANCELLED, "finished_at": Now()}
    # Rows that dispatch has locked are skipped: waiting for one while holding others could be a deadlock.
    more = 1
    while more:
        with transaction.atomic():
            more = Fetch.objects.filter(pk__in=queued.select_for_update(skip_locked=True).values("pk")).update(**ended)
    _wait_until(lambda: not Fetch.objects.filter(state__in=HELD).exists(), "fetches are still held")


def _note_time(times: dict[str, int], host: str) -> None:
    times[host] = time.time_ns()


def _wait_until(ready: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{what}, after {PATIENCE_S:g} s")
        time.sleep(0.1)
