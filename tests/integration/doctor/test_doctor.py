"""`manage.py doctor` on real servers: what is good, what is wrong, and that nothing ends it but its own judgement."""

import json
import re
import socket
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import redis
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from project.doctor.findings import Verdict, good
from project.doctor.themes import postgresql
from project.doctor.themes.mail import checks as mail_checks
from tests.integration.project.conftest import Manage, Told, manage  # noqa: F401  a fixture
from tests.servers import database_url
from tests.set_up import needs_migrations, needs_no_pool
from tests.valkeys import free_port
from weir.workers import schedule
from weir.workers.models import Heartbeat
from weir.workers.processes.models import Process

SECRET = "s3cret"  # noqa: S105  what must never be seen
LINE = re.compile(r"  (good|warning|wrong|not checked) +(\S.*?)  +(\S.*)")


def levels(report: str) -> dict[str, str]:
    """Return the level of each check, by theme and name."""
    return {f"{finding['theme']}: {finding['name']}": finding["level"] for finding in json.loads(report)["findings"]}


def lines(told: Told) -> dict[str, tuple[str, str]]:
    """Return level and sentence of each line, by theme and name; fails for a traceback, and for a password."""
    assert told.stderr == ""
    assert SECRET not in told.stdout
    found, theme = {}, ""
    for line in told.stdout.splitlines():
        if match := LINE.fullmatch(line):
            found[f"{theme}: {match[2]}"] = match[1], match[3]
        else:
            theme = line
    return found


@pytest.fixture
def silent_server() -> Iterator[int]:
    """Return the port of a server that accepts connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@needs_migrations
@pytest.mark.django_db(transaction=True)
def test_what_works_is_good_and_what_does_not_is_told() -> None:
    """The tests' servers and their tables are; but they keep nothing over a crash, and no process runs on them."""
    told = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", stdout=told)
    found = levels(told.getvalue())
    assert ended.value.code == 1
    good = (
        "connection",
        "version",
        "writes",
        "connections",
        "distance",
        "clock",
        "snapshots",
        "migrations",
        "rights",
        "sequences",
    )
    assert {found[f"PostgreSQL: {name}"] for name in good} == {"good"}
    assert {level for name, level in found.items() if name.startswith(("Redis", "Installation"))} == {"good"}
    wrong = ["PostgreSQL: durability", "PostgreSQL: schedule", "Processes: kinds"]
    assert [name for name, level in found.items() if level == "wrong"] == wrong
    assert found["Queues: consumers"] == found["Queues: heartbeats"] == "not checked"


@needs_migrations
@pytest.mark.django_db(transaction=True)
def test_processes_that_tell_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent one is named, with how long; the others count as running."""
    call_command("sync_schedule", stdout=StringIO())
    for kind in ("beat", "fetcher", "mailer", "maintenance", "ticks", "worker"):
        Process.objects.create(kind=kind, name=f"{kind}.1@host", host="host", pid=7, version="0.1.0", holds=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE weir_processes_process SET turned_at = turned_at - interval '1 min' WHERE kind = 'mailer'"
        )
    Heartbeat.objects.create(queue="weir.fetch")
    monkeypatch.setattr("weir.workers.consumers.PATIENCE", (0.1,))
    told = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", stdout=told)
    text = told.getvalue()
    assert re.search(r"wrong +kinds +No mailer runs, so e-mails wait: start the process of the Procfile ", text)
    assert re.search(r"wrong +turns +mailer\.1@host \(pid 7\) is silent for 6\d s", text)
    assert re.search(r"good +versions +All run Weir 0\.1\.0\.", text)
    assert re.search(rf"good +schedule +Beat's schedule has all {len(schedule.entries())} entries\.", text)
    assert text.count("No worker consumes the queue") == 5
    assert re.search(r"good +heartbeats +No queue has been without a heartbeat", text)  # they have just started


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_drops_messages(own_broker: redis.Redis, manage: Manage) -> None:  # noqa: F811  the fixture
    """By the policy that the server itself tells."""
    own_broker.config_set("maxmemory", "100mb")
    own_broker.config_set("maxmemory-policy", "allkeys-lru")
    socket_path = own_broker.connection_pool.connection_kwargs["path"]
    found = lines(manage("doctor", REDIS_URL=f"unix://{socket_path}"))
    told = "maxmemory-policy is allkeys-lru, which drops messages and deltas: set it to noeviction."
    assert found["Redis and the broker: memory"] == ("wrong", told)
    assert found["Redis and the broker: broker"] == ("good", "It is the same server.")


@pytest.mark.django_db(transaction=True)
def test_a_redis_whose_user_may_not_ask_it(own_broker: redis.Redis, manage: Manage) -> None:  # noqa: F811  the fixture
    """It works all the same, with the rights that docs/operations.md states."""
    own_broker.acl_setuser(
        "weir",
        reset=True,
        enabled=True,
        passwords=["+word"],
        keys=["*"],
        channels=["*"],
        categories=["+@all", "-@dangerous"],
    )
    socket_path = own_broker.connection_pool.connection_kwargs["path"]
    found = lines(manage("doctor", REDIS_URL=f"unix://weir:word@{socket_path}"))
    assert found["Redis and the broker: connection"][0] == "good"
    for name in ("version", "writes", "memory", "persistence"):
        not_checked = ("not checked", "The user of its URL has no right to INFO.")
        assert found[f"Redis and the broker: {name}"] == not_checked


def test_the_mail_server_is_asked_and_gets_nothing(mail: MailServer) -> None:
    """It lets us in, and no e-mail was begun."""
    before = mail.received()  # by other tests
    [verdict, _] = [check.ask() for check in mail_checks()]
    assert verdict == good(f"The mail server 127.0.0.1:{mail.port} lets us in.")
    assert mail.received() == before


def test_each_relay_is_asked_and_gets_nothing(mail: MailServer, settings: Settings) -> None:
    """What EMAIL_HOST names is none of them; no sentence has a password."""
    settings.EMAIL_HOST = "not-asked.invalid"
    settings.WEIR_MAIL_RELAYS = [
        f"smtp://127.0.0.1:{mail.port}",
        f"resend+http://{SECRET}@127.0.0.1:{free_port()}",
        "django://django.core.mail.backends.dummy.EmailBackend",
    ]
    [first, second, third, _] = [cast("Verdict", check.ask()) for check in mail_checks()]
    assert first == good(f"The relay 127.0.0.1:{mail.port} answers.")
    assert (second.level, third.level) == ("wrong", "not checked")
    assert "does not let us in, so e-mails wait or take another" in second.sentence
    assert SECRET not in f"{second}"
    settings.WEIR_MAIL_RELAYS = ["smtp:/"]
    assert [check.name for check in mail_checks()] == ["sender"]


@needs_no_pool
def test_servers_that_are_away(manage: Manage, tmp_path: Path) -> None:  # noqa: F811  the fixture
    """One sentence says how to start each; what needs it is not checked, and all else is."""
    told = manage("doctor", WEIR_HOME=tmp_path)
    found = lines(told)
    assert told.returncode == 1
    level, sentence = found["PostgreSQL: connection"]
    assert (level, sentence.partition(":")[0]) == ("wrong", "PostgreSQL is not running")
    assert found["PostgreSQL: version"] == ("not checked", "It needs PostgreSQL.")
    assert found["Redis and the broker: connection"][1].startswith("Valkey is not running: start it with `make up`")
    assert found["Redis and the broker: broker"] == ("not checked", "It needs Redis.")
    assert found["Processes: kinds"][0] == found["Queues: lengths"][0] == "not checked"
    assert found["Installation: packages"][0] == found["Fetching: networks"][0] == "good"
    assert re.fullmatch(r"\d+ good, \d+ warning, 2 wrong, \d+ not checked\.", told.stdout.splitlines()[-1])


@needs_no_pool
def test_servers_that_say_nothing(manage: Manage, silent_server: int) -> None:  # noqa: F811  as above
    """Each is given up, and told without its password."""
    told = manage(
        "doctor",
        DATABASE_URL=f"postgresql://weir:{SECRET}@127.0.0.1:{silent_server}/orders?connect_timeout=2",
        REDIS_URL=f"redis://:{SECRET}@127.0.0.1:{silent_server}/0",
        EMAIL_HOST="127.0.0.1",
        EMAIL_PORT=str(silent_server),
        EMAIL_HOST_PASSWORD=SECRET,
    )
    found = lines(told)
    assert told.returncode == 1
    assert found["PostgreSQL: connection"][1].startswith(
        f"PostgreSQL at 127.0.0.1:{silent_server}/orders does not work"
    )
    assert found["Redis and the broker: connection"][1].endswith("): check REDIS_URL.")
    assert found["E-mail: mail server"][0] == "wrong"
    assert "does not let us in, so e-mails wait" in found["E-mail: mail server"][1]
    assert found["Settings: security.W008"][0] == "warning"


@pytest.mark.usefixtures("embedded_servers")
def test_a_database_without_tables(manage: Manage) -> None:  # noqa: F811  as above
    """The migrations are told, and what reads tables is not checked."""
    found = lines(manage("doctor", DATABASE_URL=database_url("postgres")))
    assert re.fullmatch(r"\d+ migrations are not applied: run `.*migrate`\.", found["PostgreSQL: migrations"][1])
    assert found["PostgreSQL: schedule"] == found["Processes: kinds"]
    assert found["Processes: kinds"] == ("not checked", "It needs the database's tables.")


def test_variables_that_cannot_be_read(manage: Manage) -> None:  # noqa: F811  as above
    """Are all that is told, as by each command."""
    told = manage("doctor", "--json", WEIR_FETCH_TIMEOUT="abc", WEIR_OBEY_ROBOTS="ture")
    assert told.returncode == 1
    assert told.stdout == ""
    assert [line.split()[0] for line in told.stderr.splitlines()] == ["WEIR_FETCH_TIMEOUT", "WEIR_OBEY_ROBOTS"]


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_wrote_is_told_without_a_snapshot(other_connection: psycopg.Connection[Any]) -> None:
    """Between two statements, as of a client that has been forgotten; another session may have an older one."""
    other_connection.execute("SELECT pg_current_xact_id()")
    age = other_connection.execute(
        "SELECT extract(epoch FROM clock_timestamp() - xact_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    ).fetchone()
    holders = {holder.kind: holder for holder in postgresql.OLDEST_SNAPSHOT()}
    assert age
    assert (holders["session"].seconds or 0) >= age[0]
