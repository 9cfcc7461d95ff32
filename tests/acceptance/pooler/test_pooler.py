"""Everything behind PgBouncer, which gives each transaction another session, and is killed under load."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from packaging.version import Version

from demo.fakes import sites
from demo.fakes.children import die_with_parent
from demo.fakes.mail_server import MailServer
from project.embedded import postgres
from tests import own_servers
from tests.acceptance import all_jobs, judging, under_load
from tests.acceptance.all_jobs import Committed
from tests.acceptance.conftest import Cluster, set_rates, wait_for_progress
from tests.own_servers import Server, beside
from tests.waiting import wait_for
from workers.recovery.models import Recovery

PGBOUNCER = os.environ.get("WEIR_TEST_PGBOUNCER") or shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"
)
pytestmark = pytest.mark.skipif(not PGBOUNCER, reason="this machine has no pgbouncer (Debian: apt install pgbouncer)")
PREPARES_SINCE = Version("1.21")
KILLS = 30 if "WEIR_FAULTS" in os.environ else 2
SITES = 12
RATES = ("2/s", "5/s", "10/s")
POOL = 8  # sessions of PostgreSQL, for all processes together
NAMES = ("ticks", "maintenance", "fetcher-1", "fetcher-2", "beat", "mailer")
ROLE = """
    ALTER ROLE postgres SET statement_timeout = '60s';
    ALTER ROLE postgres SET idle_in_transaction_session_timeout = '60s'
"""


@dataclass(kw_only=True)
class Pooler:
    """PgBouncer, in a folder of its own."""

    folder: Path
    server: Server
    is_prepared: bool  # it keeps prepared statements over transactions, and Weir prepares them
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        keeps = "max_prepared_statements = 200" if self.is_prepared else ""
        self.folder.joinpath("ini").write_text(f"""
            [databases]
            {own_servers.NAME} = host={self.server.folder} user=postgres
            [pgbouncer]
            listen_addr =
            unix_socket_dir = {self.folder}
            auth_type = any
            pool_mode = transaction
            default_pool_size = {POOL}
            max_client_conn = 500
            query_wait_timeout = 20
            {keeps}
        """)
        (self.folder / ".s.PGSQL.6432").unlink(missing_ok=True)
        assert PGBOUNCER
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [PGBOUNCER, str(self.folder / "ini")],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 -- no other thread starts processes here
                **postgres._account().switch(),
            )
        wait_for(self.answers, 20, "PgBouncer")

    def session(self) -> psycopg.Connection:
        """Return a session of its own that a client gets."""
        return psycopg.connect(host=str(self.folder), port=6432, user="postgres", dbname=own_servers.NAME)

    def keeps_statements(self) -> bool:
        """Tell whether statements are prepared in the session of PostgreSQL's that it gives us."""
        with self.session() as session:
            return bool(session.execute("SELECT FROM pg_prepared_statements LIMIT 1", prepare=False).fetchall())

    def answers(self) -> bool:
        """Tell whether a client can log in."""
        try:
            self.session().close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self) -> str:
        """Return its DATABASE_URL."""
        return f"postgresql://postgres@/{own_servers.NAME}?host={self.folder}&port=6432" + (
            "&prepare_threshold=5" if self.is_prepared else ""
        )

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.process
        self.process.kill()
        self.process.wait()


def version() -> Version:
    """Return that of PgBouncer."""
    assert PGBOUNCER
    told = subprocess.run([PGBOUNCER, "--version"], check=True, capture_output=True, text=True).stdout
    return Version(told.split()[1])


@pytest.fixture(params=[False, True], ids=["nothing prepared", "prepared"])
def pooler(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Pooler]:
    """A PostgreSQL of our own, which this process uses, and a pooler before it, which the cluster uses."""
    if request.param and version() < PREPARES_SINCE:
        pytest.skip(f"PgBouncer {version()} keeps no prepared statements: {PREPARES_SINCE} and newer do")
    with own_servers.primary() as server, all_jobs.on(cluster, str(server.folder)):
        server.query(ROLE)
        folder = beside(server, "pooler")
        own_servers.make_folder(folder)
        made = Pooler(folder=folder, server=server, is_prepared=request.param)
        made.start()
        cluster.environment |= {"DATABASE_URL": made.url(), "WEIR_TRANSACTION_POOLING": "true"}
        try:
            yield made
        finally:
            cluster.stop()
            made.kill()


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
    assert int(str(sessions)) <= POOL + 2  # ours, and that of the look itself
