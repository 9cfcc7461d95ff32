"""PostgreSQL's host vanishes without a word, behind a pooler that goes on."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from demo.fakes import sites
from tests import own_servers
from tests.acceptance import all_jobs, networks, under_load
from tests.acceptance.all_jobs import Committed
from tests.acceptance.conftest import CELERY, Cluster, set_rates, wait_for_progress
from tests.acceptance.pooler import poolers
from tests.acceptance.pooler.poolers import NAMES, SITES
from tests.waiting import in_time, wait_for

pytestmark = pytest.mark.skipif(not poolers.PGBOUNCER, reason=poolers.MISSING)
AWAY_S = 120 if "WEIR_FAULTS" in os.environ else 25
STILL_S = 20  # the longest time that a loop may stand still; a probe of Kubernetes accepts 60
GOES_ON_WITHIN_S = 10


@pytest.fixture
def separate() -> Iterator[networks.Networks]:
    """Return a network for Weir and the pooler, and one for PostgreSQL."""
    try:
        with networks.separate(1) as made, made.sites.entered():
            yield made
    except networks.Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.faults
def test_all_jobs_go_on_after_postgresql_was_silent_behind_a_pooler(
    cluster: Cluster, separate: networks.Networks
) -> None:
    """Each loop turns meanwhile, so that no probe ends a process; nothing is early, lost or sent twice."""
    alive = cluster.folder / "alive"
    address = f"{networks.CABLES}.0.2"
    with (
        own_servers.primary({"listen_addresses": "*"}, inside=separate.clients[0].enter) as server,
        all_jobs.on(cluster, address),
        poolers.running(server, address) as pooler,
        all_jobs.mails(cluster) as mails,
        sites.running(SITES, cluster.folder) as running,
    ):
        cluster.environment |= pooler.environment | {"WEIR_LIVENESS_DIR": str(alive)}
        intervals = set_rates(running, dict.fromkeys(running.hosts, "5/s"))
        cluster.start_together(*NAMES, celery=[*separate.sites.enter, *CELERY])
        committed = Committed()
        committed.fetch([running.url(place, f"/ok/{number}") for place in range(SITES) for number in range(40)])
        committed.notify()
        committed.ship(10)
        wait_for_progress(2 * SITES, 60, "fetches")
        wait_for(lambda: len(list(alive.iterdir())) == len(NAMES), 20, "a file of each process")
        connection.close()
        cable = networks.cable_to(separate, 0)
        cable.pull()
        longest = longest_silence(alive, AWAY_S)
        cable.put_back()
        began = time.monotonic()
        wait_for_progress(2, 60, "fetches to go on")
        went_on = time.monotonic() - began
        found = under_load.outcome(running, mails, committed, intervals)
        cluster.stop()
    print(
        f"\nPostgreSQL silent for {AWAY_S} s behind PgBouncer {poolers.version()}: {found}; "
        f"a process stood for {longest:.1f} s at most; went on after {went_on:.1f} s"
    )
    found.check()
    in_time(longest < STILL_S, f"a process stood still for {longest:.1f} s")
    in_time(went_on < GOES_ON_WITHIN_S, f"fetches went on after {went_on:.1f} s")


def longest_silence(alive: Path, seconds: float) -> float:
    """Return for how many seconds at most, in the time that is given, a process has not touched its file."""
    files = list(alive.iterdir())
    longest, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        longest = max(longest, *(time.time() - file.stat().st_mtime for file in files))
        time.sleep(0.2)
    return longest
