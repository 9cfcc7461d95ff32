"""The broker is a hint: messages that it forgets, or cannot take, make fetches late, but never lose them."""

import os
import time
from pathlib import Path

import pytest
import redis

from demo.fakes import site_log, sites
from project import embedded
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states, wait_for_progress
from tests.acceptance.judging import early
from tests.waiting import wait_for
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import FetchState

SITES = 12
RATES = ("1/s", "2/s", "5/s", "10/s")
AT_LENGTH = "WEIR_FAULTS" in os.environ
OUTAGE_S = 60.0 if AT_LENGTH else 6.0  # twice as long as fetchers have slots for
WIPES = 20 if AT_LENGTH else 2
WORK_S = 14 + 3 * WIPES if AT_LENGTH else 14  # for each site: some is left when the outage is over


@pytest.mark.faults
def test_nothing_is_lost_or_early_when_the_broker_is_wiped_and_then_down(cluster: Cluster, tmp_path: Path) -> None:
    """FLUSHALL in the middle of a run, then no broker for a while: every URL ends, none was early."""
    with sites.running(SITES, tmp_path) as running:
        rates = {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)}
        intervals = set_rates(running, rates)
        urls = [
            running.url(place, f"/ok/{number}")
            for place, host in enumerate(running.hosts)
            for number in range(int(WORK_S / intervals[host]))
        ]
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        request_fetches(urls)
        done_at = {}
        for event in (*(f"wiped {wipe + 1}" for wipe in range(WIPES)), "down"):
            wait_for_progress(SITES, 30, "fetches to go on")
            done_at[event] = states()[FetchState.DONE]
            if event == "down":
                cluster.stop_broker()
                down_at = time.monotonic()
                late = request_fetches([running.url(0, "/ok/asked-while-down")])  # web code must not notice
                while time.monotonic() < down_at + OUTAGE_S:  # waits for the time itself
                    time.sleep(0.1)
                cluster.start_broker()
            else:
                with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as broker:
                    broker.flushall()
        wait_for(all_ended, 120, "all fetches to end")

    arrivals, _ = site_log.read_arrivals(running.log)
    print(
        f"\nrequests: {len(arrivals)}  early: {early(arrivals, intervals)}  done at each event: {done_at}  {states()}"
    )
    assert done_at["down"] < len(urls), "the outage must come in the middle of the run"
    assert early(arrivals, intervals) == 0
    assert states() == {FetchState.DONE: len(urls) + len(late)}
    assert {arrival.path for arrival in arrivals} >= {"/ok/asked-while-down"}
