"""What a running Weir takes of PostgreSQL: the part of a fetch, of a fetcher, and of all other processes.

A worker for the ticks, beat and fetchers fetch pages of 2 KB from fake sites. There are three turns: one fetcher at a
low rate, more fetchers at that rate, and one fetcher at a higher rate. The third turn uses more than the first by what
its fetches take; the second, by what its fetchers take because they run; the other processes take the rest.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.capacity.usage import Meter, Usage, most_sessions, running_postgresql, sessions
from benchmarks.fetches import own_processes
from benchmarks.figures import Figure
from demo.fakes import judge, site_log, sites
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches

PER_S = 5  # of each site
FEW, MANY = 20, 120  # sites
MORE_FETCHERS = 4
WARM_UP_S = float(os.environ.get("WEIR_BENCH_WARM_UP", "8"))
MEASURED_S = float(os.environ.get("WEIR_BENCH_SECONDS", "15"))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What was used in a second of one turn, and how many sessions there were at most."""

    fetchers: int
    fetches: float  # a second
    used: Usage
    sessions: int


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What one resource is used for: by each fetch, by each fetcher in a second, and by all others in a second."""

    fetch: float
    fetcher: float
    others: float


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the parts of each resource."""
    turns = [_turn(folder, 1, FEW), _turn(folder, MORE_FETCHERS, FEW), _turn(folder, 1, MANY)]
    commits = parts(turns, [turn.used.commits for turn in turns])
    processors = parts(turns, [turn.used.processors for turn in turns])
    low, more, high = turns
    yield Figure(name="capacity_fetches_low", value=low.fetches, unit="fetches/s")
    yield Figure(name="capacity_fetches_high", value=high.fetches, unit="fetches/s")
    yield from _figures("commits", commits, (1, "commits"), (1, "commits/s"))
    yield from _figures("postgresql", processors, (1e3, "ms of a core"), (1e2, "% of a core"))
    # All WAL: the part of fetches cannot be separated from the pages that a checkpoint makes PostgreSQL write in full.
    yield Figure(name="capacity_wal_a_fetch", value=high.used.wal_bytes / high.fetches / 1e3, unit="KB")
    a_fetcher = (more.sessions - low.sessions) / (more.fetchers - low.fetchers)
    yield Figure(name="capacity_sessions_a_fetcher", value=a_fetcher, unit="connections")
    yield Figure(name="capacity_sessions_of_others", value=low.sessions - a_fetcher, unit="connections")
    yield Figure(name="capacity_sessions_at_most", value=most_sessions(), unit="connections (max_connections)")


def parts(turns: list[Turn], used: list[float]) -> Parts:
    """Return the parts of a resource, from what the three turns used of it in a second."""
    low, more, high = turns
    of_low, of_more, of_high = used
    fetch = (of_high - of_low) / (high.fetches - low.fetches)
    fetcher = (of_more - of_low - fetch * (more.fetches - low.fetches)) / (more.fetchers - low.fetchers)
    return Parts(fetch=fetch, fetcher=fetcher, others=of_low - fetch * low.fetches - fetcher * low.fetchers)


def _figures(name: str, of: Parts, once: tuple[float, str], a_second: tuple[float, str]) -> Iterator[Figure]:
    """Yield the parts, each in its unit: the factor and the name."""
    for part, value, (factor, unit) in (
        ("a_fetch", of.fetch, once),
        ("a_fetcher", of.fetcher, a_second),
        ("of_others", of.others, a_second),
    ):
        yield Figure(name=f"capacity_{name}_{part}", value=value * factor, unit=unit)


def _turn(folder: Path, fetchers: int, number: int) -> Turn:
    own_processes.empty()
    (folder / "requests.log").unlink(missing_ok=True)
    with sites.running(number, folder) as running:
        for host in running.hosts:
            site_settings.set_rate(f"{host}:{running.port}", f"{PER_S}/s")
        each = int(PER_S * (WARM_UP_S + MEASURED_S + 20))
        request_fetches([running.url(place, f"/ok/{page}") for page in range(each) for place in range(number)])
        with running_postgresql() as postgresql, own_processes.running(folder / "weir.log", fetchers):
            time.sleep(WARM_UP_S)
            return _measured(running, fetchers, Meter(postgresql))


def _measured(running: sites.Sites, fetchers: int, meter: Meter) -> Turn:
    """Look at PostgreSQL for MEASURED_S; RuntimeError if nothing was fetched."""
    from_ns, most = time.time_ns(), 0
    while time.time_ns() < from_ns + MEASURED_S * judge.NANOSECONDS:
        most = max(most, sessions())
        time.sleep(0.5)
    used, until_ns = meter.a_second(), time.time_ns()
    time.sleep(site_log.READ_WITHIN_S)
    arrivals, _ = site_log.read_arrivals(running.log)
    fetched = sum(from_ns <= arrival.at_ns < until_ns for arrival in arrivals)
    if not fetched:
        raise RuntimeError("Nothing was fetched while it was measured.")
    per_s = fetched / (until_ns - from_ns) * judge.NANOSECONDS
    return Turn(fetchers=fetchers, fetches=per_s, used=used, sessions=most)
