"""The clock of PostgreSQL's host is stepped, forward and back, while all three jobs are at work; and all is suspended.

libfaketime makes the clock of one server wrong: of a PostgreSQL of the test's own, and of nothing else. No process of
Weir is asked when a request was sent: the sites' kernel says when it came.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from django.db import connection

from demo.fakes import sites
from tests import own_servers
from tests.acceptance import all_jobs
from tests.acceptance.conftest import Cluster
from tests.acceptance.faults.host import Host, everything_stopped
from tests.acceptance.faults.load import SITES, GoesOn, Load, drift
from tests.own_servers import Server
from tests.waiting import wait_for
from weir.postgres.timeline.models import KnownTimeline
from weir.workers.fetches.models import Fetch
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.recovery.models import Recovery

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
AT_LENGTH = "WEIR_FAULTS" in os.environ
HOUR_S = 3600
# Where the clock stands, one after the other; it is right before each step but that by +65 s.
STEPS = (0, HOUR_S, 0, -HOUR_S, 0, 60, 0, -60, 5, 0, 24 * HOUR_S, 0) if AT_LENGTH else (0, HOUR_S, 0)
AHEAD_S = 20.0 if AT_LENGTH else 6.0
SUSPENDED_S = 60
NAMES = ("worker", "ticks", "maintenance", "fetcher-1", "fetcher-2", "mailer", "beat")
GOES_ON_WITHIN_S = 10.0
pytestmark = [pytest.mark.alone, pytest.mark.faults]


@dataclass(frozen=True, kw_only=True)
class SteppedServer:
    """A server whose clock goes wrong by as many seconds as its file says."""

    server: Server
    file: Path

    def step(self, seconds: int) -> None:
        """Set the clock, at once, for all of its processes."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.chmod(0o644)
        new.rename(self.file)
        [[wrong_by]] = self.server.query("SELECT extract(epoch FROM clock_timestamp())::float8")
        assert abs(float(str(wrong_by)) - time.time() - seconds) < 1


@pytest.fixture
def stepped(cluster: Cluster) -> Iterator[SteppedServer]:
    """A PostgreSQL of our own, which the cluster and this process use, and whose clock can be stepped."""
    if not LIBRARIES:
        pytest.skip("this machine has no libfaketime (Debian: apt install libfaketime)")
    cluster.folder.chmod(0o755)
    file = readable_folder() / "clock"
    file.write_text("+0\n")
    file.chmod(0o644)
    environment = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DISABLE_SHM": "1",
        "NO_FAKE_STAT": "1",
    }
    try:
        with own_servers.primary(environment=environment) as server, all_jobs.on(cluster, str(server.folder)):
            yield SteppedServer(server=server, file=file)
    finally:
        shutil.rmtree(file.parent)


def readable_folder() -> Path:
    """Return a folder that PostgreSQL's user can read."""
    folder = Path(tempfile.mkdtemp(prefix="weir-clock-"))
    folder.chmod(0o755)
    return folder


def test_no_step_of_the_clock_makes_anything_early_or_stand_still(cluster: Cluster, stepped: SteppedServer) -> None:
    """0 early, 0 lost, 0 twice, 0 drift; all three jobs go on within ten seconds."""
    with all_jobs.mails(cluster) as mails, sites.running(SITES, cluster.folder) as running:
        cluster.start_together(*NAMES)
        load = Load(cluster=cluster, running=running, mails=mails, ahead_s=AHEAD_S)
        goes_on = {}
        for settled, (before, now) in enumerate(pairwise(STEPS), start=1):
            in_hand(load)
            early_before = load.early()
            stepped.step(now)
            goes_on[f"{now - before:+d} s"] = load.goes_on(time.time_ns())
            assert load.early() == early_before == 0
            assert KnownTimeline.objects.get().steps == settled
        end(load, goes_on)


def in_hand(load: Load) -> None:
    """Wait until there is work, and every job has some in hand: requests without an answer, e-mails without a reply."""
    load.top_up()
    load.wait_until_calm()
    load.top_up()
    load.committed.ship(10, treated="late-300")
    wait_for(Email.objects.filter(state=EmailState.SENDING).exists, 20, "an e-mail that is being sent")
    wait_for(Fetch.objects.filter(state__in=["reserved", "running"]).exists, 20, "fetches in hand")


def end(load: Load, goes_on: dict[str, GoesOn]) -> None:
    """Wait for the end of all work, print the table, and judge."""
    load.end()
    print("\n| step | early | lost | twice | drift | fetches, e-mails, numbers go on after |")
    print("|---|---|---|---|---|---|")
    for name, after in goes_on.items():
        print(
            f"| {name} | {load.early()} | {load.lost().total()} | {load.twice()} | {drift()} | "
            f"{after.fetches_s:.1f} s, {after.emails_s:.1f} s, {after.numbers_s:.1f} s |"
        )
    unknown = Email.objects.filter(state=EmailState.UNKNOWN).count()
    print(
        f"{len(load.arrivals())} requests, {load.early()} early; lost: {dict(load.lost())}; "
        f"{load.twice()} e-mails twice of {load.mails.received().total()}, {unknown} unknown; {drift()} numbers wrong; "
        f"restarts: {load.restarts}"
    )
    assert (load.early(), load.lost(), load.twice(), drift(), unknown) == (0, {}, 0, 0, 0)
    assert list(Recovery.objects.values_list("since", "why", "who")) == []
    assert {name: after for name, after in goes_on.items() if after.slowest_s > GOES_ON_WITHIN_S} == {}


@pytest.mark.skipif(not AT_LENGTH, reason="takes minutes: make faults")
def test_all_is_suspended_and_goes_on(cluster: Cluster) -> None:
    """As a virtual machine: all processes and both servers stand still, and the clocks go on."""
    with (
        own_servers.primary() as server,
        all_jobs.on(cluster, str(server.folder)),
        all_jobs.mails(cluster) as mails,
        sites.running(SITES, cluster.folder) as running,
    ):
        cluster.start_together(*NAMES)
        load = Load(cluster=cluster, running=running, mails=mails)
        in_hand(load)
        connection.close()
        with everything_stopped(Host(load=load, server=server)):
            until = time.monotonic() + SUSPENDED_S
            wait_for(lambda: time.monotonic() > until, SUSPENDED_S + 5, "the time itself")
        end(load, {f"suspended for {SUSPENDED_S} s": load.goes_on(time.time_ns())})
        assert KnownTimeline.objects.get().steps == 0
