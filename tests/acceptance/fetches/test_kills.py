"""SIGKILL, anywhere and again and again: every URL still ends, and no site is asked early."""

import os
import random
from pathlib import Path

import pytest

from demo.fakes import site_log, sites
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states, wait_for_progress
from tests.acceptance.judging import early
from tests.waiting import wait_for
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

KILLS = 60 if "WEIR_FAULTS" in os.environ else 4
SITES = 16
RATES = ("1/s", "2/s", "4/s", "10/s")
NAMES = ("ticks", "fetcher-1", "fetcher-2", "beat")
SECONDS_A_KILL = 3  # of backlog: a process takes one to start again


@pytest.mark.faults
def test_every_url_ends_and_none_is_early_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Workers, fetchers and beat are killed and started again while there is a backlog; nothing is lost or early."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  in which order they are killed
    with sites.running(SITES, tmp_path) as running:
        rates = {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)}
        intervals = set_rates(running, rates)
        urls = [
            running.url(place, f"/ok/{number}")
            for place, host in enumerate(running.hosts)
            for number in range(int(KILLS * SECONDS_A_KILL / intervals[host]))
        ]
        cluster.start_together(*NAMES)
        request_fetches(urls, max_attempts=100)
        killed: list[str] = []
        while len(killed) < KILLS:
            for name in chance.sample(NAMES, len(NAMES)):
                wait_for_progress(SITES, 60, f"fetches to go on after {killed}")
                cluster.kill(name)
                killed.append(name)
                cluster.start_together(name)
        wait_for(all_ended, 180, f"all fetches to end after {killed}: {states()}")

    arrivals, _ = site_log.read_arrivals(running.log)
    losses = sum(Fetch.objects.values_list("losses", flat=True))
    print(f"\nkilled: {killed}  requests: {len(arrivals)}  early: {early(arrivals, intervals)}  lost: {losses}")
    assert early(arrivals, intervals) == 0
    assert states() == {FetchState.DONE: len(urls)}
    assert {(arrival.host, arrival.path) for arrival in arrivals} == {
        (host, f"/ok/{number}")
        for host in running.hosts
        for number in range(int(KILLS * SECONDS_A_KILL / intervals[host]))
    }
