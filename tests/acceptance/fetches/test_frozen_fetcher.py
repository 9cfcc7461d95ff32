"""A fetcher that is frozen is known within ten seconds; others fetch what it held, and it wakes without harm."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import F

from demo.fakes import site_log, sites
from project.processes.supervisor import descendants
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states, wait_for_progress
from tests.acceptance.judging import early
from tests.waiting import wait_for
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.processes.models import Process
from weir.workers.processes.status import SILENT_AFTER_S, processes

LONG = "WEIR_FAULTS" in os.environ
SITES, RATE = (30, "10/s") if LONG else (8, "5/s")  # few leave the processors to the tests beside this one
SECONDS = 25  # of work at each site
DEADLINES = {"WEIR_FETCH_TIMEOUT": "30", "WEIR_FETCH_CONNECT_TIMEOUT": "10", "WEIR_FETCH_DNS_TIMEOUT": "5"}
KNOWN_WITHIN_S = 10
GOES_ON_WITHIN_S = 13  # the next sweep is part of it


@dataclass(frozen=True, kw_only=True)
class Work:
    """The sites from which two fetchers fetch, and what was asked for."""

    running: sites.Sites
    intervals: dict[str, float]
    urls: list[str]

    def repeated(self, held: str = "") -> int:
        """Return how many requests came a second time, after all fetches; none was early, and each fetch is done."""
        arrivals, _ = site_log.read_arrivals(self.running.log)
        repeated, too_early = len(arrivals) - len(self.urls), early(arrivals, self.intervals)
        print(f"\n{held}requests {len(arrivals)}, early {too_early}, repeated {repeated}")
        assert too_early == 0
        assert states() == {FetchState.DONE: len(self.urls)}
        return repeated


@contextmanager
def fetching(cluster: Cluster, folder: Path, path: str) -> Iterator[Work]:
    """Let two fetchers work, which count as witnesses: as if all processes had run for long."""
    cluster.environment |= DEADLINES
    with sites.running(SITES, folder) as running:
        intervals = set_rates(running, dict.fromkeys(running.hosts, RATE))
        urls = [
            running.url(place, f"/{path}/{number}")
            for place, host in enumerate(running.hosts)
            for number in range(int(SECONDS / intervals[host]))
        ]
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        request_fetches(urls, max_attempts=100)
        wait_for_progress(10 * SITES, 30, "the fetchers to have work")
        Process.objects.update(steady_since=F("steady_since") - timedelta(hours=1))
        yield Work(running=running, intervals=intervals, urls=urls)


@pytest.mark.faults
def test_what_a_frozen_fetcher_held_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """SIGSTOP under load, and SIGCONT when others have its fetches: none is early, lost, or fetched without need."""
    with fetching(cluster, tmp_path, "ok") as work:
        frozen = Process.objects.get(name__startswith="fetcher-1@")

        held = Fetch.objects.filter(state=FetchState.RUNNING, claimed_by=frozen.pk)

        def is_frozen_with_work() -> bool:
            """Freeze it, and thaw it again if it holds nothing just now."""
            cluster.processes["fetcher-1"].send_signal(signal.SIGSTOP)
            if not held.exists():
                cluster.processes["fetcher-1"].send_signal(signal.SIGCONT)
                return False
            return True

        wait_for(is_frozen_with_work, 10, "the fetcher to hold fetches")
        frozen_at = time.monotonic()
        held_then = held.count()
        wait_for(lambda: frozen.name in silent(), KNOWN_WITHIN_S, "the frozen fetcher to be known")
        known_after_s = time.monotonic() - frozen_at
        wait_for(lambda: not held.exists(), GOES_ON_WITHIN_S - known_after_s, "its fetches to be taken back")
        taken_back_after_s = time.monotonic() - frozen_at
        wait_for_progress(SITES, 5, "the other fetcher to go on")

        cluster.processes["fetcher-1"].send_signal(signal.SIGCONT)
        wait_for(lambda: frozen.name not in silent(), 5, "the fetcher that was thawed to turn")
        wait_for(held.exists, 10, "the fetcher that was thawed to have work again")
        wait_for(all_ended, 60, f"all fetches to end: {states()}")

    repeated = work.repeated(
        f"held {held_then}, known after {known_after_s:.1f} s, taken back after {taken_back_after_s:.1f} s, "
    )
    assert repeated <= held_then, "only what was in flight may be requested a second time"


@pytest.mark.alone
@pytest.mark.faults
@pytest.mark.skipif(not LONG, reason="takes a minute: make faults")
def test_nothing_is_taken_back_because_the_database_was_away(cluster: Cluster, tmp_path: Path) -> None:
    """PostgreSQL is frozen, as if suspended, for longer than a process may be silent, and the fetchers wake up later.

    No process could write its heartbeat, and none is blamed for it: the first that comes back must not consider the
    others dead.
    """
    with fetching(cluster, tmp_path, "slow") as work:
        fetchers = [cluster.processes[name].pid for name in ("fetcher-1", "fetcher-2")]
        with frozen(*fetchers):
            with frozen(*database_pids()):
                time.sleep(SILENT_AFTER_S + 2)
            time.sleep(5)  # for the heartbeats of the others, and for sweep
        wait_for(lambda: not silent(), 10, "all to turn again")
        wait_for(all_ended, 90, f"all fetches to end: {states()}")

    assert "process_lost" not in cluster.log("ticks").read_text()
    assert work.repeated() == 0


def database_pids() -> list[int]:
    """Return the ids of all processes of the tests' PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        [folder] = cursor.fetchone()
    postmaster = int((Path(folder) / "postmaster.pid").read_text().split()[0])
    return [postmaster, *descendants(postmaster)]


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Freeze these processes while the block lasts."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def silent() -> set[str]:
    """Return the names of the processes that are silent."""
    return {process.name for process in processes() if process.state == "silent"}
