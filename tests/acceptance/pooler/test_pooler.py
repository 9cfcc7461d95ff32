"""Everything behind PgBouncer, which gives each transaction another session, and is killed under load."""

import os
import time
from collections.abc import Iterator

import pytest

from demo.fakes import sites
from demo.fakes.mail_server import MailServer
from tests import own_servers
from tests.acceptance import all_jobs, judging, under_load
from tests.acceptance.all_jobs import Committed
from tests.acceptance.conftest import Cluster, set_rates, wait_for_progress
from tests.acceptance.pooler import poolers
from tests.acceptance.pooler.poolers import NAMES, PREPARES_SINCE, SITES, Pooler, version
from tests.waiting import wait_for
from weir.workers.recovery.models import Recovery

pytestmark = pytest.mark.skipif(not poolers.PGBOUNCER, reason=poolers.MISSING)
KILLS = 30 if "WEIR_FAULTS" in os.environ else 2
RATES = ("2/s", "5/s", "10/s")


@pytest.fixture(params=[False, True], ids=["nothing prepared", "prepared"])
def pooler(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Pooler]:
    """A PostgreSQL of our own, which this process uses, and a pooler before it, which the cluster uses."""
    if request.param and version() < PREPARES_SINCE:
        pytest.skip(f"PgBouncer {version()} keeps no prepared statements: {PREPARES_SINCE} and newer do")
    with (
        own_servers.primary() as server,
        all_jobs.on(cluster, str(server.folder)),
        poolers.running(server, str(server.folder), is_prepared=request.param) as made,
    ):
        cluster.environment |= made.environment
        yield made
        cluster.stop()


@pytest.fixture
def mails(cluster: Cluster) -> Iterator[MailServer]:
    with all_jobs.mails(cluster) as running:
        yield running


@pytest.mark.faults
def test_all_jobs_behind_a_pooler_that_is_killed(cluster: Cluster, pooler: Pooler, mails: MailServer) -> None:
    """No request is early, nothing is lost, no number is wrong, no e-mail is sent twice; and all goes on by itself."""
    with sites.running(SITES, cluster.folder) as running:
        intervals = set_rates(running, {host: RATES[place % len(RATES)] for place, host in enumerate(running.hosts)})
        cluster.start_together(*NAMES)
        count = 60 + 40 * KILLS
        urls = [
            running.url(place, f"/ok/{number}")
            for place, host in enumerate(running.hosts)
            for number in range(int(count / 10 / intervals[host]))
        ]
        committed, waits = Committed(), []
        committed.fetch(urls)
        for _ in range(KILLS):
            committed.notify()
            committed.ship(10)
            wait_for_progress(2 * SITES, 60, "fetches")
            pooler.kill()
            pooler.start()
            began = time.monotonic()
            wait_for_progress(2, 60, "fetches to go on")
            waits.append(time.monotonic() - began)
        found = under_load.outcome(running, mails, committed, intervals)
        wait_for(lambda: not judging.stored_wrong(), 60, "the stored numbers")
        wait_for(lambda: pooler.keeps_statements() == pooler.is_prepared, 20, "statements that are prepared, or none")
        [[sessions]] = pooler.server.query(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = 'weir' AND backend_type = 'client backend'"
        )
    print(
        f"\nPgBouncer {version()}, {'prepared' if pooler.is_prepared else 'not prepared'}: {KILLS} kills, "
        f"{found}; {sessions} sessions at the end; went on after {max(waits):.1f} s at most"
    )
    found.check()
    assert not Recovery.objects.exists()
    assert int(str(sessions)) <= poolers.POOL + 2  # ours, and that of the look itself
