"""Two roles, made by deploy/postgres/roles.sql: everything is done as one that can change no table."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
import redis
from django.db import connection
from django.db.models.functions import Now

from demo.fakes import sites
from demo.fakes.mail_server import MailServer
from project import embedded
from project.celery import app
from project.checkout import CHECKOUT
from project.doctor.themes import rights
from tests import own_servers
from tests.acceptance import all_jobs, past, web_process
from tests.acceptance.all_jobs import USERS, ship
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states
from tests.acceptance.judging import shown_wrong
from tests.own_servers import Server
from tests.waiting import wait_for
from weir.notifications import inbox
from weir.notifications.models import Reconciliation, UnreadCount
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.history.models import Total, Watermark
from weir.workers.recovery.models import Recovery
from weir.workers.schedule import entries

OWNER, APP = "weir_owner", "weir_app"
PASSWORDS = {"POSTGRES_OWNER_PASSWORD": "owner's", "POSTGRES_APP_PASSWORD": 'app"s'}
NAMES = ("worker", "ticks", "maintenance", "fetcher", "mailer", "beat")
FETCHES = 20
RIGHTS = """
    SELECT rolname, rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls,
        has_schema_privilege(rolname, 'public', 'CREATE'),
        has_database_privilege(rolname, current_database(), 'TEMPORARY'),
        (SELECT count(*) FROM pg_class WHERE relowner = role.oid AND relkind IN ('r', 'S'))
    FROM pg_roles AS role WHERE rolname LIKE 'weir%' ORDER BY rolname
"""
FORBIDDEN = (
    "CREATE TABLE mine ()",
    "CREATE TEMPORARY TABLE mine ()",
    "ALTER TABLE weir_mail_email ADD mine int",
    "DROP TABLE weir_mail_email",
    "TRUNCATE weir_mail_email",
)
pytestmark = pytest.mark.skipif(
    shutil.which("psql") is None, reason="this machine has no psql (Debian: apt install postgresql-client)"
)


def make_roles(server: Server, user: str = "postgres", **passwords: str) -> subprocess.CompletedProcess[str]:
    """Execute the file as its head says."""
    command = ["psql", "--no-psqlrc", "--host", str(server.folder), "--username", user, "--dbname", own_servers.NAME]
    return subprocess.run(
        [*command, "--file", "deploy/postgres/roles.sql"],
        cwd=CHECKOUT,
        env={**os.environ, **passwords},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def server() -> Iterator[Server]:
    with own_servers.primary() as made:
        yield made


@pytest.fixture
def mails(cluster: Cluster) -> Iterator[MailServer]:
    with all_jobs.mails(cluster) as running:
        yield running


def url_of(server: Server, role: str) -> str:
    """Return the DATABASE_URL of a role."""
    return f"postgresql://{role}@/{own_servers.NAME}?host={server.folder}"


def refused(server: Server) -> list[str]:
    """Return what PostgreSQL has refused for want of rights, by its log."""
    return re.findall(r"ERROR:  (.*(?:permission denied|must be owner).*)", (server.folder / "log").read_text())


def each_task_has_run(cluster: Cluster) -> bool:
    """Tell whether no message waits, nor is being handled."""
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as broker:
        return not any(broker.llen(queue) for queue in {entry.queue for entry in entries()}) and not broker.hlen(
            "unacked"
        )


def do_all_jobs(cluster: Cluster, mails: MailServer) -> None:
    """Fetch, notify and send e-mails, and wait until all of that has ended."""
    with sites.running(2, cluster.folder) as running:
        set_rates(running, dict.fromkeys(running.hosts, "20/s"))
        request_fetches([running.url(number % 2, f"/ok/{number}") for number in range(FETCHES)])
        inbox.notify_many([*USERS], "news", "Hello")
        ship(10)
        wait_for(all_ended, 60, f"the fetches: {states()}")
    assert states() == {FetchState.DONE: FETCHES}
    wait_for(lambda: UnreadCount.objects.filter(unread_count=1).count() == len(USERS), 30, "the flush")
    wait_for(lambda: mails.received().total() == 10, 30, "the e-mails")
    wait_for(Reconciliation.objects.filter(trusted=True).exists, 60, "the reconciliation")
    assert shown_wrong() == {}


def test_all_jobs_are_done_without_a_right_to_change_tables(
    cluster: Cluster, server: Server, mails: MailServer
) -> None:
    """Each process of the Procfile, each task of the schedule and the commands get on; PostgreSQL refuses nothing."""
    assert make_roles(server, **PASSWORDS).returncode == 0
    with all_jobs.on(cluster, str(server.folder), owner=OWNER, role=APP):
        cluster.environment |= {
            "WEIR_FETCH_RETENTION": "900",
            "WEIR_SLOT_RETENTION": "900",
            "WEIR_METRICS_TOKEN": "x",
        }
        Watermark.objects.create(id=1, rolled_until=Now() - timedelta(minutes=1), epoch=0)
        url = web_process.start(cluster, "web")
        cluster.start_together(*NAMES)
        do_all_jobs(cluster, mails)

        past.roll_up(cluster)
        with app.connection_for_write(f"redis+socket://{embedded.valkey_socket(cluster.broker_home)}") as broker:
            for entry in entries():
                app.send_task(entry.task, entry.arguments, queue=entry.queue, connection=broker)
        wait_for(lambda: not Fetch.objects.exists(), 60, "the purge")
        wait_for(lambda: each_task_has_run(cluster), 30, "all tasks of the schedule")
        assert Total.objects.get(series="fetches_ended", label="done").value == FETCHES
        assert [
            line for name in NAMES for line in cluster.log(name).read_text().splitlines() if '"level": "error"' in line
        ] == []

        assert f"The role {APP} reads and writes all tables, and can change none." in web_process.manage(
            cluster, "doctor"
        )
        web_process.manage(cluster, "status")
        web_process.manage(cluster, "migrate", "--no-input")  # finds nothing to do
        web_process.manage(cluster, "migrate", "--check", WEIR_TRANSACTION_POOLING="true")
        web_process.manage(cluster, "recover", "--why", "a test")
        assert Recovery.objects.count() == 1
        assert web_process.answer(f"{url}/readyz")[0] == 200
        status, metrics = web_process.answer(f"{url}/metrics", shown="x")
        assert status == 200
        assert set(re.findall(r"^weir_scrape_errors\{.*\} (.*)$", metrics, re.MULTILINE)) == {"0.0"}
        print(
            f"\n{FETCHES} fetches, 10 e-mails, {len(USERS)} numbers, {len(entries())} tasks; refused: {refused(server)}"
        )
        assert refused(server) == []
        assert server.query(RIGHTS)[0] == (APP, False, False, False, 0)
        for statement in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.cursor() as cursor:
                cursor.cursor.connection.execute(statement)


def test_migrate_says_as_whom_to_migrate(cluster: Cluster, server: Server) -> None:
    """The role of the processes is refused with one sentence, which names the other one."""
    make_roles(server, **PASSWORDS)

    with pytest.raises(subprocess.CalledProcessError) as failed:
        web_process.manage(cluster, "migrate", "--no-input", DATABASE_URL=url_of(server, APP))

    with pytest.raises(subprocess.CalledProcessError) as unapplied:
        web_process.manage(cluster, "migrate", "--check", DATABASE_URL=url_of(server, APP))

    assert (unapplied.value.returncode, unapplied.value.stderr) == (1, "")
    assert failed.value.stderr.strip() == (
        f"CommandError: The role {APP} may not change tables: have DATABASE_URL name the role that owns them, such as "
        f"{OWNER}, for this command (docs/how-to/harden.md)."
    )


def test_an_older_database_gets_the_roles(cluster: Cluster, server: Server) -> None:
    """What another role has created belongs to the owner then, and the file may be executed again."""
    with all_jobs.on(cluster, str(server.folder)):
        before = server.query(RIGHTS)
        found = [make_roles(server, **PASSWORDS) for _ in range(2)]

        assert [(result.returncode, result.stdout + result.stderr) for result in found] == [(0, "")] * 2
        assert before == []
        [app_role, owner_role] = server.query(RIGHTS)
        assert app_role == (APP, False, False, False, 0)
        assert owner_role[:4] == (OWNER, False, True, True)
        assert int(str(owner_role[4])) > 50
        web_process.manage(cluster, "migrate", "weir_recovery", "zero", DATABASE_URL=url_of(server, OWNER))


@pytest.mark.parametrize("closed", ["weir_mail_email", "weir_ratelimit_backlog"])
def test_doctor_finds_a_table_or_a_view_that_is_closed(closed: str, cluster: Cluster, server: Server) -> None:
    """As after a migration by somebody else than the owner."""
    make_roles(server, **PASSWORDS)
    with all_jobs.on(cluster, str(server.folder), owner=OWNER, role=APP):
        server.query(f"REVOKE UPDATE ON {closed} FROM {APP}")

        found = rights.ask()

    assert (found.level, f"1 tables or sequences, such as {closed}" in found.sentence) == ("wrong", True)


def test_doctor_finds_a_view_whose_owner_has_no_rights(cluster: Cluster, server: Server) -> None:
    """A view reads and writes its table with the rights of its owner: as after all tables got another one."""
    make_roles(server, **PASSWORDS)
    with all_jobs.on(cluster, str(server.folder), owner=OWNER, role=APP):
        server.query("CREATE ROLE former")
        server.query("ALTER VIEW weir_ratelimit_backlog OWNER TO former")
        server.query(f"GRANT SELECT, UPDATE ON weir_ratelimit_backlog TO {APP}")

        found = rights.ask()

    assert (found.level, "1 tables or sequences, such as weir_ratelimit_backlog" in found.sentence) == ("wrong", True)


def test_the_roles_are_made_by_an_admin_without_superuser_rights(server: Server) -> None:
    """As those of hosted databases are."""
    server.query("CREATE ROLE admin LOGIN CREATEROLE CREATEDB")
    server.query("ALTER DATABASE weir OWNER TO admin")

    assert make_roles(server, "admin", **PASSWORDS).stderr == ""
    assert make_roles(server, "admin", **PASSWORDS).stderr == ""
    assert [role[:3] for role in server.query(RIGHTS)] == [(APP, False, False), (OWNER, False, True)]


def test_roles_without_passwords_are_refused(server: Server) -> None:
    """One sentence says which variables to set, and nothing was changed."""
    result = make_roles(server, POSTGRES_APP_PASSWORD="x")  # noqa: S106  no password of anything

    assert result.returncode == 3
    assert "ERROR:  Set POSTGRES_OWNER_PASSWORD and POSTGRES_APP_PASSWORD, the passwords that" in result.stderr
    assert server.query(RIGHTS) == []
