"""The promise, with real processes, judged by the sites' own log, in which the kernel wrote the times."""

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from project.demo import gaps, sites
from tests.acceptance.conftest import Cluster, all_ended, early, set_rates, states, used_share, wait_for
from workers.fetches.enqueue import request_fetches
from workers.fetches.models import Fetch, State

RATES = ("1/2s", "1/s", "2/s", "3/s", "5/s", "8/s", "10/s", "20/s")
SITES = 24
LONG = "WEIR_FAULTS" in os.environ
MEASURED_S = 120.0 if LONG else 20.0
WARM_UP_S = 3.0  # the first run of each lane begins when dispatch first looks


@pytest.mark.faults
def test_each_site_is_asked_at_its_own_pace_also_when_a_fetcher_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """24 sites, 3 fetchers: none asked early, 95 % of the rate used, every URL ends though a fetcher is killed."""
    with sites.running(SITES, tmp_path) as running:
        rates = {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)}
        intervals = set_rates(running, rates)
        urls = [
            running.url(place, f"/ok/{number}")
            for place, host in enumerate(running.hosts)
            for number in range(int((MEASURED_S + WARM_UP_S + 4) / intervals[host]) + 2)
        ]
        cluster.start("worker", "worker")
        for name in ("fetcher-1", "fetcher-2", "fetcher-3"):
            cluster.start("fetcher", name)
        cluster.start("beat", "beat")
        request_fetches(urls)

        wait_for(lambda: len(gaps.read_log(running.log)[0]) >= SITES, 20, "the first requests")
        from_ns = time.time_ns() + int(WARM_UP_S * 1e9)
        until_ns = from_ns + int(MEASURED_S * 1e9)
        wait_for(lambda: time.time_ns() > until_ns, MEASURED_S + WARM_UP_S + 5, "the measured time")
        backlog = Fetch.objects.filter(state=State.QUEUED).values("site").distinct().count()
        cluster.kill("fetcher-2")
        wait_for(all_ended, 90, f"all fetches to end: {states()}")

    arrivals, _ = gaps.read_log(running.log)
    share = used_share(arrivals, intervals, from_ns, until_ns)
    asked = Counter(f"http://{arrival.host}:{running.port}{arrival.path}" for arrival in arrivals)
    lateness = [late or 0.0 for late in Fetch.objects.values_list("lateness_ms", flat=True)]
    print(
        f"\nrequests: {len(arrivals)}  early: {early(arrivals, intervals)}  used: {share:.1%}  "
        f"shortest gap / interval: {min(gaps.gap_ratios(arrivals, intervals)):.4f}  "
        f"lateness ms p50 {gaps.percentile(lateness, 50):.1f} p99 {gaps.percentile(lateness, 99):.1f}  "
        f"asked twice after the kill: {sum(count - 1 for count in asked.values())}"
    )
    assert early(arrivals, intervals) == 0
    assert backlog == SITES, "every lane must have had work for the whole measured time"
    assert share >= 0.95
    assert states() == {State.DONE: len(urls)}
    assert set(asked) == set(urls), "every URL was asked for at its site"
