"""A broker that is frozen, and says nothing: processes go on to turn, and stop when they are asked to."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from demo.fakes import sites
from project import embedded
from tests.acceptance.conftest import Cluster, set_rates, states, wait_for, wait_for_progress
from workers.fetches.enqueue import request_fetches
from workers.fetches.models import State
from workers.processes.models import Process
from workers.processes.status import SILENT_AFTER_S, processes

NAMES = ("worker", "ticks", "fetcher", "mailer", "beat")
END_WITHIN_S = 10
SITES = 12


@contextmanager
def frozen_broker(cluster: Cluster) -> Iterator[None]:
    """Freeze the cluster's broker for the time of the block."""
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as client:
        pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.alone
@pytest.mark.parametrize("frozen_for_s", [0.0, SILENT_AFTER_S + 4.0])
def test_all_stop_though_the_broker_says_nothing(cluster: Cluster, tmp_path: Path, frozen_for_s: float) -> None:
    """Each goes on to turn, and ends in order soon after it was asked to; the fetcher holds nothing any more."""
    with sites.running(SITES, tmp_path) as running:
        set_rates(running, dict.fromkeys(running.hosts, "10/s"))
        request_fetches([running.url(place, f"/ok/{number}") for place in range(SITES) for number in range(600)])
        cluster.start_together(*NAMES)
        wait_for_progress(10 * SITES, 30, "the fetcher to have work")
        with frozen_broker(cluster):
            frozen_at = time.monotonic()
            wait_for(lambda: time.monotonic() >= frozen_at + frozen_for_s, 60, "the time itself")
            assert {process.state for process in processes()} == {"alive"}
            for name in NAMES:
                cluster.processes[name].send_signal(signal.SIGTERM)
            asked_at = time.monotonic()
            ended_after_s: dict[str, float] = {}
            while len(ended_after_s) < len(NAMES) and time.monotonic() < asked_at + 3 * END_WITHIN_S:
                for name in NAMES:
                    if name not in ended_after_s and cluster.processes[name].poll() is not None:
                        ended_after_s[name] = round(time.monotonic() - asked_at, 1)
                time.sleep(0.05)
            print(f"\nended after {ended_after_s}", states())
    assert {name: cluster.processes[name].returncode for name in NAMES} == dict.fromkeys(NAMES, 0)
    assert max(ended_after_s.values()) < END_WITHIN_S
    assert states()[State.RUNNING] == 0
    assert not Process.objects.exists()
