"""Fetchers that are stopped at any moment, on processors that others use: early starts are at least reported.

A stop harms only if it falls between the last look at the clock and the write: half a microsecond, which is too short
to be hit. So there is a second turn, with a longer time between the two: it has early starts to report.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from demo.fakes import judge, site_log, sites
from demo.fakes.site_log import Arrival
from tests.acceptance import web_process
from tests.acceptance.conftest import CELERY, Cluster, all_ended, set_rates, states, wait_for_progress
from tests.acceptance.fetches import stops
from tests.acceptance.fetches.stops import Reported, SetBehind
from tests.acceptance.judging import early
from tests.waiting import wait_for
from weir.ratelimit.models import Site, StartTotal
from weir.ratelimit.pacing import CONFIRMED_FOR_S, HAND_OVER_MARGIN_S
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

LONG = "WEIR_FAULTS" in os.environ
SEED = os.environ.get("WEIR_FAULTS_SEED", "weir")
STOPS = {0: 2_000, 5: 480}  # by the milliseconds that fetchers wait between their look at the clock and the write
FETCHERS = ("fetcher-1", "fetcher-2", "fetcher-3", "fetcher-4")
BUSY = 8
LASTS_S = 480.0  # at most
SITES = 60
RATES = ("1/2s", "2/s", "5/s", "10/s")
AHEAD_S = 10.0  # of work that each site has in the queue
TOKEN = "a-long-random-text"  # noqa: S105  of the test
# A fetcher that stood still finds its time-outs over; the time-outs of answers that have come by then must not be.
DEADLINES = {"WEIR_FETCH_TIMEOUT": "30", "WEIR_FETCH_CONNECT_TIMEOUT": "10", "WEIR_FETCH_DNS_TIMEOUT": "5"}


@pytest.mark.alone
@pytest.mark.faults
@pytest.mark.skipif(not LONG, reason="takes minutes: make faults")
@pytest.mark.parametrize("wait_ms", STOPS)
def test_what_is_early_was_reported(cluster: Cluster, tmp_path: Path, wait_ms: int) -> None:
    """Random stops of four fetchers, and eight processes that never wait, on the processors of any machine."""
    cluster.environment |= DEADLINES | {"WEIR_METRICS_TOKEN": TOKEN}
    with sites.running(SITES, tmp_path) as running:
        intervals = set_rates(running, {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)})
        urls = _request(running, intervals, 0)
        cluster.start_together("ticks", "beat")
        cluster.start_together(*FETCHERS, celery=_celery(wait_ms))
        wait_for_progress(SITES, 30, "the fetchers to have work")
        began_at = time.monotonic()
        with stops.busy_processes(BUSY, LASTS_S), ThreadPoolExecutor(len(FETCHERS)) as threads:
            stopping = [threads.submit(_stop, cluster, name, STOPS[wait_ms] // len(FETCHERS)) for name in FETCHERS]
            urls += _keep_at_work(running, intervals, len(urls), stopping)
        lasted_s = [stop_s for future in stopping for stop_s in future.result()]
        took_s = time.monotonic() - began_at
        wait_for(all_ended, 180, f"all fetches to end: {states()}")
        told = stops.reported(cluster.logged("started_out_of_time"))
        in_postgresql = partial(Site.objects.filter(starts_out_of_time__gt=0).values_list, "name", "starts_out_of_time")
        wait_for(lambda: dict(in_postgresql()) == Counter(start.site for start in told), 5, "PostgreSQL to be told")
        assert all(cluster.processes[name].poll() is None for name in FETCHERS), "no fetcher has ended"
        metric = _metric(cluster)

    arrivals, _ = site_log.read_arrivals(running.log)
    known = stops.set_behind(cluster.logged("site_set_behind"))
    print(f"\nWEIR_FAULTS_SEED={SEED}, {wait_ms} ms between look and write: {len(lasted_s)} stops in {took_s:.0f} s")
    print(_lengths(lasted_s))
    short = _judge(arrivals, intervals, told, known)
    assert len(lasted_s) == STOPS[wait_ms]
    assert told or not wait_ms, "no stop has hit where there is time for it"
    assert early(arrivals, intervals) == short
    assert metric == len(told) == sum(StartTotal.objects.values_list("out_of_time", flat=True))
    assert json.loads((tmp_path / "sites.json").read_text())["reads_without_kernel_time"] == 0
    assert states() == {FetchState.DONE: len(urls)}
    assert {(arrival.host, arrival.path) for arrival in arrivals} == set(map(_page, urls))


def _celery(wait_ms: int) -> tuple[str, ...]:
    """Return the command that starts Celery in a fetcher."""
    return (sys.executable, "-m", "tests.acceptance.fetches.slow_write", str(wait_ms), "celery") if wait_ms else CELERY


def _stop(cluster: Cluster, name: str, times: int) -> list[float]:
    chance = random.Random(f"{SEED} {name}")  # noqa: S311  when, and for how long
    return stops.stop_at_random(cluster.processes[name].pid, times, chance)


def _request(running: sites.Sites, intervals: dict[str, float], first: int) -> list[str]:
    """Ask for AHEAD_S of work for each site; the pages are numbered from `first` on."""
    urls = [
        running.url(place, f"/ok/{first + number}")
        for place, host in enumerate(running.hosts)
        for number in range(int(AHEAD_S / intervals[host]))
    ]
    request_fetches(urls, max_attempts=100)
    return urls


def _keep_at_work(
    running: sites.Sites, intervals: dict[str, float], first: int, stopping: list[Future[list[float]]]
) -> list[str]:
    """Keep AHEAD_S of work in the queue until all stops are over."""
    urls: list[str] = []
    least = AHEAD_S * sum(1 / interval for interval in intervals.values())
    while not all(future.done() for future in stopping):
        if Fetch.objects.filter(state=FetchState.QUEUED).count() < least:
            urls += _request(running, intervals, first + len(urls))
        time.sleep(1)
    return urls


def _page(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.path


def _metric(cluster: Cluster) -> float:
    """Return what /metrics reports."""
    status, text = web_process.answer(f"{web_process.start(cluster, 'web')}/metrics", shown=TOKEN)
    assert status == 200, text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    [found] = [sample.value for sample in samples if sample.name == "weir_starts_out_of_time_total"]
    return found


def _judge(arrivals: list[Arrival], intervals: dict[str, float], told: list[Reported], known: list[SetBehind]) -> int:
    """Print all figures, and compare each early request with what the fetchers say; returns how many were early."""
    urls = Fetch.objects.filter(pk__in={start.fetch for start in told}).values_list("pk", "url")
    late = stops.out_of_time(arrivals, told, {pk: _page(url) for pk, url in urls})
    short = stops.short_gaps(arrivals, intervals)
    unreported, too_close = stops.unreported(short, late), stops.too_close_behind(short, late, known)
    print(
        f"requests {len(arrivals)}, early {len(short)}, reported {len(told)}, early and unreported {len(unreported)}, "
        f"shortest gap / interval {min(judge.gap_ratios(arrivals, intervals)):.4f}, "
        f"asked again {len(arrivals) - len({(arrival.host, arrival.path) for arrival in arrivals})}"
    )
    for one, other in short:
        print(f"early by {intervals[one.host] * 1e3 - (other.at_ns - one.at_ns) / 1e6:.3f} ms: {one} {other}")
    assert not unreported
    assert not too_close
    assert len(late) == len(told), "each report is of a request that the site has seen"
    return len(short)


def _lengths(lasted_s: list[float]) -> str:
    bounds = HAND_OVER_MARGIN_S, CONFIRMED_FOR_S, 2.0
    beyond = ", ".join(
        f"{sum(stop_s > bound_s for stop_s in lasted_s)} of more than {bound_s:g} s" for bound_s in bounds
    )
    return f"stops of {min(lasted_s) * 1e3:.1f} ms to {max(lasted_s):.2f} s: {beyond}"


# --- who judges that ------------------------------------------------------------------------------

INTERVALS = {"127.1.0.1": 1.0}
PAGES = {1: ("127.1.0.1", "/1"), 2: ("127.1.0.1", "/2"), 3: ("127.1.0.1", "/3")}


def came(fetch: int, at_s: float) -> Arrival:
    return Arrival(at_ns=round(at_s * 1e9), host=PAGES[fetch][0], path=PAGES[fetch][1])


def said(fetch: int, at_s: float) -> Reported:
    return Reported(at_ns=round(at_s * 1e9), site="127.1.0.1:80", fetch=fetch)


@pytest.mark.parametrize(
    ("starts", "wrong"),
    [
        ([], 2),
        ([said(2, 10.71)], 0),  # it came between two others
        ([said(1, 10.01)], 1),
        ([said(2, 10.69)], 2),  # no request of that fetch had come by then
        ([said(2, 99.0)], 2),  # it was asked for again meanwhile
        ([said(3, 99.0)], 1),
    ],
)
def test_an_early_request_that_nobody_has_reported_is_found(starts: list[Reported], wrong: int) -> None:
    """Whether the start that was out of its time is the first or the last of the two."""
    arrivals = [came(2, 10.7), came(3, 11.0), came(1, 10.0), came(1, 5.0), came(2, 20.0)]
    short = stops.short_gaps(arrivals, INTERVALS)
    assert len(short) == early(arrivals, INTERVALS) == 2
    assert len(stops.unreported(short, stops.out_of_time(arrivals, starts, PAGES))) == wrong


@pytest.mark.parametrize(("at_s", "wrong"), [(10.55, 0), (10.65, 1), (11.0, 0)])
def test_who_has_heard_of_a_start_out_of_its_time_keeps_its_distance(at_s: float, wrong: int) -> None:
    """Half a second after PostgreSQL knows of it, all holders do."""
    arrivals = [came(1, 10.0), came(2, at_s)]
    short, late = stops.short_gaps(arrivals, INTERVALS), {arrivals[0]}
    known = [SetBehind(at_ns=round(at * 1e9), site="127.1.0.1:80") for at in (9.0, 10.1, 10.9)]
    assert len(stops.too_close_behind(short, late, known)) == wrong
