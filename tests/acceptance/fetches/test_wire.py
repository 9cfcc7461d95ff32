"""The promise at the wire: fetchers on hosts of their own, as far as one machine has them, with clocks that are wrong.

Each fetcher has a network and a wall clock of its own. No process of Weir is asked when a request was sent: the sites'
kernel says when it came.
"""

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from demo.fakes import judge, site_log, sites
from tests.acceptance import networks
from tests.acceptance.conftest import CELERY, Cluster, all_ended, set_rates, states, used_share
from tests.acceptance.judging import early
from tests.waiting import in_time, wait_for
from weir.ratelimit.models import Slot
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

LONG = "WEIR_FAULTS" in os.environ
SITES = 200 if LONG else 16
RATES = ("1/s", "2/s", "3/s", "4/s") if LONG else ("2/s", "3/s", "5/s", "10/s")  # 500/s, or 80/s, on two cores
PATHS = ("/ok", "/once")  # the site keeps the connection, or closes it
KILLS = 6 if LONG else 1
KILL_S = 5.0  # of work for each kill: a process takes two or three to start again
WARM_UP_S = 2.0  # until the runs that the last killed fetcher held are over
CALM_S = 180.0 if LONG else 6.0  # no process is killed, and all sites have work
AHEAD_S = (
    5.0  # more work than that: what dispatch has reserved is no backlog any more, and kills leave some sites ahead
)
LEAST_SHARE = 0.95 if LONG else 0.9  # of the allowed rates: a lost second counts for more in a short time
FETCHERS = {"right": 0, "fast": 3600, "slow": -3600}  # seconds by which the wall clock is ahead


@pytest.fixture
def separate() -> Iterator[networks.Networks | None]:
    """Yield networks for the sites and for each fetcher; None, with a printed reason, if the system has none."""
    try:
        with networks.separate(len(FETCHERS)) as made:
            yield made
    except networks.Unavailable as error:
        print(f"\nAll processes share the host's network: {error}")
        yield None


@pytest.mark.faults
def test_no_gap_is_short_whatever_network_and_clock_a_fetcher_has(
    cluster: Cluster, separate: networks.Networks | None, tmp_path: Path
) -> None:
    """3 fetchers with an hour between their clocks, in 3 networks, killed and started again: no site is asked early."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  which one is killed
    where: dict[str, Any] = {"network": networks.SITES, "inside": separate.sites.enter} if separate else {}
    with sites.running(SITES, tmp_path, **where) as running:
        intervals = set_rates(running, {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)})
        _start(cluster, separate)
        urls: list[str] = []
        killed: list[str] = []
        for _ in range(KILLS):
            urls += _request(running, intervals, KILL_S, len(urls))
            _wait_for_requests(running, 2 * SITES)
            killed.append(chance.choice(sorted(FETCHERS)))
            cluster.kill(killed[-1])
            _wait_for_requests(running, SITES)
            cluster.start("fetcher", killed[-1], celery=_celery(killed[-1], separate))
        urls += _request(running, intervals, WARM_UP_S + CALM_S + AHEAD_S, len(urls))
        from_ns = time.time_ns() + int(WARM_UP_S * 1e9)
        until_ns = from_ns + int(CALM_S * 1e9)
        wait_for(lambda: time.time_ns() > until_ns, WARM_UP_S + CALM_S + 5, "the measured time")
        backlog = Fetch.objects.filter(state=FetchState.QUEUED).values("site").distinct().count()
        wait_for(all_ended, 180, f"all fetches to end: {states()}")

    arrivals = _seen(running)
    share = used_share(arrivals, intervals, from_ns, until_ns)
    counts = json.loads((tmp_path / "sites.json").read_text())
    print(f"\nkilled: {killed}  used afterwards: {share:.1%}")
    _report(arrivals, intervals)
    _report_lateness(running, [arrival for arrival in arrivals if from_ns <= arrival.at_ns < until_ns])
    assert early(arrivals, intervals) == 0
    assert counts["reads_without_kernel_time"] == 0
    assert {arrival.place > 1 for arrival in arrivals} == {False, True}, "new and kept connections"
    assert len({arrival.client for arrival in arrivals}) == (len(FETCHERS) if separate else 1)
    assert states() == {FetchState.DONE: len(urls)}
    assert {_url(running, arrival) for arrival in arrivals} == set(urls)
    in_time(backlog == SITES, f"{SITES - backlog} sites had no work left at the end of the measured time")
    in_time(share >= LEAST_SHARE, f"{share:.1%} of what the rates allow")


def _start(cluster: Cluster, separate: networks.Networks | None) -> None:
    """Start all processes, and make sure that each fetcher has its network and its clock."""
    if separate:
        cluster.environment["WEIR_FETCH_ALLOW_NETS"] = networks.ALLOW_NETS
    for name in FETCHERS:
        cluster.launch("fetcher", name, celery=_celery(name, separate))
    cluster.launch("ticks", "ticks")
    cluster.launch("beat", "beat")
    for place, (name, ahead_s) in enumerate(FETCHERS.items()):
        cluster.wait_until_ready("fetcher", name)
        says = datetime.fromisoformat(json.loads(cluster.log(name).read_text().splitlines()[-1])["timestamp"])
        assert says.timestamp() - time.time() == pytest.approx(ahead_s, abs=60)
        assert separate is None or separate.clients[place].holds(cluster.processes[name].pid)
    cluster.wait_until_ready("ticks", "ticks")
    cluster.wait_until_ready("beat", "beat")


def _celery(name: str, separate: networks.Networks | None) -> list[str]:
    """Return the command that starts Celery in a fetcher's network, with its clock."""
    inside = separate.clients[list(FETCHERS).index(name)].enter if separate else ()
    wrong = (sys.executable, "-m", "tests.wrong_clock", str(FETCHERS[name]), "celery")
    return [*inside, *(wrong if FETCHERS[name] else CELERY)]


def _request(running: sites.Sites, intervals: dict[str, float], seconds: float, first: int) -> list[str]:
    """Ask for `seconds` of work for each site; the pages are numbered from `first` on."""
    urls = [
        running.url(place, f"{PATHS[place // len(RATES) % len(PATHS)]}/{first + number}")
        for place, host in enumerate(running.hosts)
        for number in range(int(seconds / intervals[host]))
    ]
    request_fetches(urls, max_attempts=100)
    return urls


def _url(running: sites.Sites, arrival: site_log.Arrival) -> str:
    return f"http://{arrival.host}:{running.port}{arrival.path}"


def _seen(running: sites.Sites) -> list[site_log.Arrival]:
    return site_log.read_arrivals(running.log)[0]


def _wait_for_requests(running: sites.Sites, more: int) -> None:
    """Return when the sites have seen this many more requests."""
    so_far = running.log.stat().st_size
    wait_for(lambda: len(site_log.read_arrivals(running.log, so_far)[0]) >= more, 30, f"{more} requests")


def _report(arrivals: list[site_log.Arrival], intervals: dict[str, float]) -> None:
    """Print how the sites were asked, and how often the site went from one host to another."""
    in_turn = sorted(arrivals, key=lambda arrival: (arrival.host, arrival.at_ns))
    hand_overs = sum(one.host == other.host and one.client != other.client for one, other in pairwise(in_turn))
    print(
        f"requests: {len(arrivals)} to {len(intervals)} sites by {len({a.client for a in arrivals})} hosts  "
        f"early: {early(arrivals, intervals)}  "
        f"shortest gap / interval: {min(judge.gap_ratios(arrivals, intervals)):.4f}  "
        f"from one host to another: {hand_overs}  "
        f"asked again: {len(arrivals) - len({(a.host, a.path) for a in arrivals})}"
    )


def _report_lateness(running: sites.Sites, calm: list[site_log.Arrival]) -> None:
    """Print how punctual these requests were, by the sites' clock, which is PostgreSQL's, too, and by the fetchers'.

    Also print how near to the end of its run any request came: after the end, it would be too near to the next run.
    """
    slots = {pk: (start, until) for pk, start, until in Slot.objects.values_list("pk", "start_time", "use_until")}
    noted = {
        url: (*slots[slot or 0], ms or 0.0)
        for url, slot, ms in Fetch.objects.values_list("url", "slot_id", "lateness_ms")
    }
    arrived = {_url(running, arrival): arrival for arrival in calm}
    late = {url: arrival.at_ns / 1e6 - noted[url][0].timestamp() * 1e3 for url, arrival in arrived.items()}
    for what, late_ms in {
        "new connections": [ms for url, ms in late.items() if arrived[url].place == 1],
        "kept connections": [ms for url, ms in late.items() if arrived[url].place > 1],
        "all, as the fetchers have it": [noted[url][2] for url in arrived],
    }.items():
        p50, p99 = (judge.percentile(late_ms, q) for q in (50, 99))
        print(f"lateness ms, {what} ({len(late_ms)}): p50 {p50:.1f}  p99 {p99:.1f}  most {max(late_ms):.1f}")
    left_ms = min((until - start).total_seconds() * 1e3 - ms for start, until, ms in noted.values())
    print(f"least time left of a run when a request was written, as the fetchers have it: {left_ms:.1f} ms")
