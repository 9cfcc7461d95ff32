"""A far database: what fetchers and callers of `throttle` use of the rate, and how punctually, at several distances.

All of Weir's processes reach PostgreSQL through a proxy that delays each direction; Redis and the sites are near. Early
starts, gaps and rates come from the sites' own log, in the middle of a turn. Lateness is what the fetchers record for
each fetch. Beside them, one process calls `throttle` at a site of its own, as soon as it can: its starts are read from
the monotonic clock in the body of the `with`.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from django.conf import settings
from django.db import connection

from benchmarks.fetches import own_processes
from benchmarks.fetches.measured import Measured, measured
from benchmarks.figures import Figure, print_table
from demo.fakes import judge, sites
from demo.fakes.distance import distance
from project import embedded
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch

# Milliseconds: the round trip, and by how much a single one may be longer.
DISTANCES = ((0, 0), (5, 0), (20, 0), (50, 0), (100, 0), (0, 30))
HOSTS, PER_S = 20, 5
THROTTLED, THROTTLED_PER_S = "throttled.bench", 10
WARM_UP_S = float(os.environ.get("WEIR_BENCH_WARM_UP", "8"))
MEASURED_S = float(os.environ.get("WEIR_BENCH_SECONDS", "12"))
HEADINGS = (
    "round trip, ms",
    "used share",
    "early",
    "lateness p50, ms",
    "p99",
    "missed slots",
    "throttle: used share",
    "early",
    "first start after, s",
)

CALLS = """
import json, sys, time
import django
django.setup()
from demo.fakes.children import die_with_parent
from weir.ratelimit.throttle import throttle
die_with_parent()
site, lasts_s = sys.argv[1], float(sys.argv[2])
began_at, starts = time.monotonic(), []
while time.monotonic() < began_at + lasts_s:
    with throttle(site, max_wait=60):
        starts.append(time.monotonic() - began_at)
print(json.dumps(starts))
"""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one distance does to fetchers and to callers of `throttle`."""

    name: str
    share: float
    early: int
    lateness_ms: tuple[float, float]
    missed: int
    throttle_share: float
    throttle_early: int
    first_start_s: float


def measure(folder: Path) -> list[Figure]:
    """Return the figures of all distances, and print a table of them."""
    turns = [turn(folder, round_trip_ms / 1e3, jitter_ms / 1e3) for round_trip_ms, jitter_ms in DISTANCES]
    title = f"{HOSTS} sites at {PER_S}/s, and throttle at {THROTTLED_PER_S}/s, by distance of PostgreSQL"
    print_table(title, HEADINGS, map(_row, turns))
    return [figure for one in turns for figure in _figures(one)]


def turn(folder: Path, round_trip_s: float, jitter_s: float) -> Turn:
    """Run Weir at that distance, and judge what the sites saw."""
    own_processes.empty()
    (folder / "requests.log").unlink(missing_ok=True)
    socket = embedded.postgres_socket_dir(settings.EMBEDDED_HOME) / ".s.PGSQL.5432"
    with sites.running(HOSTS, folder) as running, distance(socket, round_trip_s, jitter_s) as far, _at(far.port):
        _fill(running)
        with own_processes.running(folder / "far_database.log"), _calling() as caller:
            time.sleep(WARM_UP_S)
            seen = measured(running, MEASURED_S)
            starts = json.loads(caller.communicate()[0])
        return _judged(f"{round_trip_s * 1e3:g} + {jitter_s * 1e3:g}", running.hosts, seen, starts)


@contextmanager
def _at(port: int) -> Iterator[None]:
    """Make processes that are started in this block reach PostgreSQL through this port."""
    database = f"postgresql://{embedded.DATABASE_USER}@127.0.0.1:{port}/{embedded.DATABASE_NAME}"
    before = dict(os.environ)
    os.environ |= {"DATABASE_URL": database, "DJANGO_SECRET_KEY": secrets.token_urlsafe(50)}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


@contextmanager
def _calling() -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", CALLS, THROTTLED, str(WARM_UP_S + MEASURED_S)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _fill(running: sites.Sites) -> None:
    """Queue more than the rates allow."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE weir_processes_process SET round_trip_s = 0")
    for host in running.hosts:
        site_settings.set_rate(f"{host}:{running.port}", f"{PER_S}/s")
    site_settings.set_rate(THROTTLED, f"{THROTTLED_PER_S}/s")
    each = round(PER_S * (WARM_UP_S + MEASURED_S + 20))
    request_fetches([running.url(host, f"/ok/{number}") for number in range(each) for host in range(HOSTS)])


def _judged(name: str, hosts: Sequence[str], seen: Measured, starts: Sequence[float]) -> Turn:
    since = datetime.fromtimestamp(seen.from_ns / judge.NANOSECONDS, UTC)  # PostgreSQL is really on this host
    ended = Fetch.objects.filter(finished_at__gte=since).values_list("lateness_ms", flat=True)
    late = [ms for ms in ended if ms is not None] or [0.0]
    called = [at for at in starts if at > WARM_UP_S]
    return Turn(
        name=name,
        share=seen.used_share(hosts, PER_S),
        early=seen.early_starts(hosts, PER_S),
        lateness_ms=(judge.percentile(late, 50), judge.percentile(late, 99)),
        missed=seen.given_back,
        throttle_share=len(called) / (THROTTLED_PER_S * MEASURED_S),
        throttle_early=sum(later - earlier < 1 / THROTTLED_PER_S for earlier, later in pairwise(starts)),
        first_start_s=starts[0] if starts else float("inf"),
    )


def _row(one: Turn) -> tuple[str, ...]:
    return (
        one.name,
        f"{one.share:.1%}",
        str(one.early),
        *(f"{lateness:.1f}" for lateness in one.lateness_ms),
        str(one.missed),
        f"{one.throttle_share:.1%}",
        str(one.throttle_early),
        f"{one.first_start_s:.2f}",
    )


def _figures(one: Turn) -> list[Figure]:
    prefix = f"far_database_{one.name.replace(' + ', '_ms_jitter_')}_ms"
    return [
        Figure(name=f"{prefix}_used_share", value=one.share * 100, unit="%"),
        Figure(name=f"{prefix}_early_starts", value=one.early, unit="requests"),
        Figure(name=f"{prefix}_lateness_p50", value=one.lateness_ms[0], unit="ms"),
        Figure(name=f"{prefix}_lateness_p99", value=one.lateness_ms[1], unit="ms"),
        Figure(name=f"{prefix}_missed_slots", value=one.missed, unit="slots"),
        Figure(name=f"{prefix}_throttle_used_share", value=one.throttle_share * 100, unit="%"),
        Figure(name=f"{prefix}_throttle_early_starts", value=one.throttle_early, unit="starts"),
        Figure(name=f"{prefix}_throttle_first_start", value=one.first_start_s, unit="s"),
    ]
