"""A broker that is frozen, or gone: processes go on with their heartbeats, and stop when they are asked to."""

import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from demo.fakes import sites
from tests.acceptance.broker_faults import frozen, gone
from tests.acceptance.conftest import Cluster, set_rates, states, wait_for_progress
from tests.waiting import in_time, wait_for
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import FetchState
from weir.workers.processes.models import Process
from weir.workers.processes.status import SILENT_AFTER_S, processes

NAMES = ("worker", "ticks", "maintenance", "fetcher", "mailer", "beat")
END_WITHIN_S = 10
AWAY_FOR_S = SILENT_AFTER_S + 4.0
SITES = 6
Fault = Callable[[Cluster], AbstractContextManager[None]]


@pytest.mark.parametrize(("fault", "lasts_s"), [(frozen, 0.0), (frozen, AWAY_FOR_S), (gone, AWAY_FOR_S)])
def test_all_turn_and_stop_without_a_broker(cluster: Cluster, tmp_path: Path, fault: Fault, lasts_s: float) -> None:
    """Each goes on with its heartbeats, and ends in order soon after it is asked to; the fetcher holds nothing then."""
    with sites.running(SITES, tmp_path) as running:
        set_rates(running, dict.fromkeys(running.hosts, "10/s"))
        request_fetches([running.url(place, f"/ok/{number}") for place in range(SITES) for number in range(250)])
        cluster.start_together(*NAMES)
        wait_for_progress(10 * SITES, 30, "the fetcher to have work")
        with fault(cluster):
            began_at = time.monotonic()
            wait_for(lambda: time.monotonic() >= began_at + lasts_s, 60, "the time itself")
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
    assert states()[FetchState.RUNNING] == 0
    assert not Process.objects.exists()
    in_time(max(ended_after_s.values()) < END_WITHIN_S, f"not all ended within {END_WITHIN_S} s: {ended_after_s}")
