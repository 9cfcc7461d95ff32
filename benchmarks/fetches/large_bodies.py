"""Large bodies: how punctual small fetches are while a fetcher reads and stores bodies of 5 MB beside them.

One turn without large bodies, and one with them, in one run. Lateness is what the fetchers record for each small fetch;
early starts and rates come from the sites' own log.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fetches import own_processes
from benchmarks.fetches.measured import measured
from benchmarks.figures import Figure, print_table
from demo.fakes import judge, sites
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

SMALL_SITES, SMALL_PER_S = 20, 5  # 100 small requests a second
LARGE_SITES, LARGE_PER_S = 4, 1  # and 4 bodies
LARGE_BYTES = 5_000_000  # just below WEIR_FETCH_MAX_BODY
MEASURED_S = float(os.environ.get("WEIR_BENCH_SECONDS", "20"))
HEADINGS = (
    "bodies beside",
    "small fetches",
    "lateness p50, ms",
    "p99",
    "used share",
    "early",
    "given back",
    "MB/s",
)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the small fetches of one turn met."""

    name: str
    fetches: int
    lateness_ms: tuple[float, float]
    share: float
    early: int
    given_back: int
    megabytes_per_s: float


def measure(folder: Path) -> list[Figure]:
    """Return the figures of both turns, and print a table of them."""
    turns = [turn(folder, "none", 0), turn(folder, f"{LARGE_SITES * LARGE_PER_S} of 5 MB a second", LARGE_SITES)]
    print_table(f"{SMALL_SITES} sites at {SMALL_PER_S}/s, alone and beside large bodies", HEADINGS, map(_row, turns))
    return [figure for one, name in zip(turns, ("alone", "beside"), strict=True) for figure in _figures(name, one)]


def turn(folder: Path, name: str, large_sites: int) -> Turn:
    """Fetch small pages for MEASURED_S seconds, and large ones from other sites."""
    own_processes.empty()
    (folder / "requests.log").unlink(missing_ok=True)
    with sites.running(SMALL_SITES + LARGE_SITES, folder) as running:
        small, large = running.hosts[:SMALL_SITES], running.hosts[SMALL_SITES:][:large_sites]
        for host in running.hosts:
            site_settings.set_rate(f"{host}:{running.port}", f"{SMALL_PER_S if host in small else LARGE_PER_S}/s")
        _queue([f"http://{host}:{running.port}/ok" for host in small], SMALL_PER_S)
        _queue([f"http://{host}:{running.port}/big/{LARGE_BYTES}" for host in large], LARGE_PER_S)
        with own_processes.running(folder / "large_bodies.log"):
            while not Fetch.objects.filter(state=FetchState.DONE).exists():
                time.sleep(0.05)
            seen = measured(running, MEASURED_S)
    pages = Fetch.objects.filter(url__endswith="/ok", state=FetchState.DONE)
    late = [ms for ms in pages.values_list("lateness_ms", flat=True) if ms is not None]
    done = Fetch.objects.filter(state=FetchState.DONE, url__contains="/big/").count()
    return Turn(
        name=name,
        fetches=len(late),
        lateness_ms=(judge.percentile(late, 50), judge.percentile(late, 99)),
        share=seen.used_share(small, SMALL_PER_S),
        early=seen.early_starts(small, SMALL_PER_S),
        given_back=seen.given_back,
        megabytes_per_s=done * LARGE_BYTES / 1e6 / MEASURED_S,
    )


def _queue(urls: Sequence[str], per_s: int) -> None:
    """Queue more than the rates allow."""
    request_fetches([url for _ in range(round(per_s * (MEASURED_S + 15))) for url in urls])


def _row(one: Turn) -> tuple[str, ...]:
    return (
        one.name,
        str(one.fetches),
        *(f"{lateness:.1f}" for lateness in one.lateness_ms),
        f"{one.share:.1%}",
        str(one.early),
        str(one.given_back),
        f"{one.megabytes_per_s:.1f}",
    )


def _figures(name: str, one: Turn) -> list[Figure]:
    prefix = f"large_bodies_{name}"
    return [
        Figure(name=f"{prefix}_lateness_p50", value=one.lateness_ms[0], unit="ms"),
        Figure(name=f"{prefix}_lateness_p99", value=one.lateness_ms[1], unit="ms"),
        Figure(name=f"{prefix}_used_share", value=one.share * 100, unit="%"),
        Figure(name=f"{prefix}_early_starts", value=one.early, unit="requests"),
        Figure(name=f"{prefix}_given_back", value=one.given_back, unit="slots"),
    ]
