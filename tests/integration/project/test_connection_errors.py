"""Servers that do not answer and settings that cannot be read: one sentence each, and never a password."""

import json
import os
import socketserver
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from project import embedded
from project.checkout import CHECKOUT
from project.errors import DOCTOR
from project.processes import folder
from tests.forked import Forked
from tests.home import DATABASE_URL
from tests.integration.project.conftest import Manage, RefusesPasswords, Told, environment, serving
from tests.servers import PLACE, database_url
from tests.set_up import IS_POOLED, needs_no_pool

SECRET = "s3cret"  # noqa: S105  what must never be seen
# Without Django's checks, which import all URLs first: test_mistakes.py has commands with them.
LIST = ("showmigrations", "weir_ratelimit", "--skip-checks")  # asks the database
FETCH = ("fetch", "http://a.example/", "--skip-checks")  # asks the broker first


def sentence(told: Told) -> str:
    """Return the one line that the command ended with; fails for anything else, and for a password in it."""
    assert told.returncode == 1
    assert SECRET not in told.stdout + told.stderr
    assert told.stderr.count("\n") == 1, told.stderr
    return told.stderr.strip()


class WrongPassword(socketserver.BaseRequestHandler):
    """A Redis that refuses every command, and repeats it in its refusal."""

    def handle(self) -> None:
        while request := self.request.recv(1_024):
            words = b" ".join(request.split(b"\r\n"))
            self.request.sendall(b"-WRONGPASS invalid username-password pair in %s\r\n" % words)


# --- PostgreSQL -----------------------------------------------------------------------------------


@needs_no_pool
def test_embedded_servers_that_do_not_run(manage: Manage, tmp_path: Path) -> None:
    """Without DATABASE_URL and without running servers, the command says how to start them."""
    told = sentence(manage(*LIST, WEIR_HOME=tmp_path))
    assert told == "PostgreSQL is not running: start it with `make up`, or set DATABASE_URL to a server of your own."


@needs_no_pool
def test_embedded_servers_that_do_not_run_while_up_does(manage: Manage, tmp_path: Path) -> None:
    """To start `up` would be refused: what runs starts its servers again, or says in its terminal why it does not."""
    with folder.held(tmp_path, 26000, {}):
        for command, name, variable in ((LIST, "PostgreSQL", "DATABASE_URL"), (FETCH, "Valkey", "REDIS_URL")):
            told = sentence(manage(*command, WEIR_HOME=tmp_path))
            assert told.startswith(f"{name} is not running, though `make up` runs from this folder (pid {os.getpid()})")
            assert "start it with" not in told
            assert variable in told


@needs_no_pool
def test_a_port_that_takes_no_connections(manage: Manage) -> None:
    """A given server that does not answer is named with host, port and database, but without the password."""
    told = sentence(manage(*LIST, DATABASE_URL=f"postgresql://weir:{SECRET}@127.0.0.1:1/orders"))
    assert told.startswith("PostgreSQL at 127.0.0.1:1/orders does not work (")
    assert told.endswith(f"Connection refused): check DATABASE_URL{DOCTOR}.")


@needs_no_pool
def test_an_unknown_host(manage: Manage) -> None:
    """A host name that does not exist is said to be the reason, in the driver's words."""
    told = sentence(manage(*LIST, DATABASE_URL=f"postgresql://weir:{SECRET}@host.invalid/orders"))
    assert told.startswith("PostgreSQL at host.invalid:5432/orders does not work (")
    assert told.endswith(f"): check DATABASE_URL{DOCTOR}.")
    assert told.count("host.invalid") > 1


@pytest.mark.parametrize("words", ['password authentication failed for user "weir" with %s', "I dislike %s"])
def test_a_refused_password_is_not_shown_even_if_the_server_repeats_it(manage: Manage, words: str) -> None:
    """What the server says about a wrong password is shown, without the password; a pool's logger says it."""
    with serving(RefusesPasswords, words.encode()) as port:
        told = manage(*LIST, DATABASE_URL=f"postgresql://weir:{SECRET}@127.0.0.1:{port}/orders")
    assert SECRET not in told.stdout + told.stderr
    *logged, last = told.stderr.splitlines()
    assert last.endswith(f"): check DATABASE_URL{DOCTOR}.")
    assert bool(logged) is IS_POOLED
    said = [json.loads(line)["event"] for line in logged] or [last]
    assert {words % "***" in text for text in said} == {True}


@needs_no_pool
@pytest.mark.usefixtures("embedded_servers")
def test_unknown_databases_and_users(manage: Manage) -> None:
    """A database or a user that the server does not have is told as such."""
    user = "" if DATABASE_URL else f"{embedded.DATABASE_USER}:{SECRET}"  # a server of one's own may want the right one
    told = sentence(manage(*LIST, DATABASE_URL=database_url("nowhere", user=user)))
    assert told.startswith(f"PostgreSQL at {PLACE}, database nowhere, does not work (")
    assert told.endswith(f'database "nowhere" does not exist): check DATABASE_URL{DOCTOR}.')
    told = sentence(manage(*LIST, DATABASE_URL=database_url("postgres", user=f"nobody:{SECRET}")))
    assert told.endswith(f'role "nobody" does not exist): check DATABASE_URL{DOCTOR}.')


@pytest.mark.usefixtures("embedded_servers")
def test_a_database_without_tables(manage: Manage) -> None:
    """Where the tables are missing, the command says to migrate."""
    url = database_url("postgres")
    told = sentence(manage("sites", "--skip-checks", DATABASE_URL=url))
    assert told == "The database lacks tables that this command needs: run `python manage.py migrate`."


@pytest.mark.parametrize("debug", [["--traceback"], []])
def test_a_traceback_is_shown_where_it_is_asked_for(manage: Manage, debug: list[str], tmp_path: Path) -> None:
    """`--traceback`, or DJANGO_DEBUG=1, shows where it happened."""
    told = manage(*LIST, *debug, WEIR_HOME=tmp_path, DJANGO_DEBUG="" if debug else "1")
    assert "Traceback" in told.stderr
    assert told.returncode == 1


def test_an_error_of_our_own_keeps_its_traceback(manage: Manage) -> None:
    """What is no server's and no setting's fault is a bug, and is shown as one."""
    told = manage("shell", "--no-imports", "--command", "raise ValueError('a bug')")
    assert "Traceback" in told.stderr


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", [f"mysql://weir:{SECRET}@db.example/orders", f"postgresql://weir:{SECRET}@db.example:port/orders"]
)
def test_a_malformed_database_url(manage: Manage, url: str) -> None:
    """A DATABASE_URL that cannot be read is told with its right form, and nothing of it is shown."""
    told = sentence(manage(*LIST, DATABASE_URL=url))
    assert told.startswith("DATABASE_URL ")
    assert "postgresql://USER:PASSWORD@HOST:5432/NAME" in told


def test_a_password_that_is_taken_for_a_place_is_not_shown(manage: Manage) -> None:
    """Where a slash in the password makes the rest look like a database, the URL is refused without a word of it."""
    told = manage(*LIST, DATABASE_URL=f"postgresql://weir:12/{SECRET}@host.invalid/orders")
    assert "in a password, write / # ? @ [ ] as" in sentence(told)


def test_other_settings_that_django_refuses(manage: Manage) -> None:
    """ImproperlyConfigured is told in Django's words, as one sentence."""
    told = manage(*LIST, DJANGO_SETTINGS_MODULE="", DATABASE_URL=f"postgresql://weir:{SECRET}@db.example/orders")
    assert "settings are not configured" in sentence(told)


@pytest.mark.parametrize(
    ("variable", "url"),
    [("REDIS_URL", f"redis://:{SECRET}@[cache.example/0"), ("CELERY_BROKER_URL", f"nothing:{SECRET}")],
)
def test_a_malformed_broker_url(manage: Manage, variable: str, url: str) -> None:
    """A broker URL that cannot be read is told by its variable's name, with its right form."""
    told = sentence(manage(*FETCH, **{variable: url}))
    assert told.startswith(f"{variable} is malformed (")
    assert "redis://:PASSWORD@HOST:6379/0" in told


def test_settings_that_cannot_be_read(manage: Manage) -> None:
    """`check` finds all of them at once, and says a sentence about each."""
    told = manage(
        "check", WEIR_FETCH_TIMEOUT="abc", WEIR_FETCH_MAX_BODY="5MB", WEIR_OBEY_ROBOTS="ture", REDIS_URL="foo"
    )
    assert told.returncode == 1
    expected = [
        "REDIS_URL is malformed (it must begin with redis://)",
        "WEIR_FETCH_MAX_BODY must be a whole number",
        "WEIR_FETCH_TIMEOUT must be a number of seconds",
        "WEIR_OBEY_ROBOTS must be true or false, but is 'ture'.",
    ]
    lines = sorted(told.stderr.splitlines())
    assert len(lines) == len(expected), told.stderr
    assert [line[: len(begins)] for line, begins in zip(lines, expected, strict=True)] == expected


def test_the_variable_at_fault_is_the_one_that_is_told(manage: Manage) -> None:
    """A URL that works, though its password would better be percent-encoded, is not taken for the mistake."""
    url = f"postgresql://weir:{SECRET}#@127.0.0.1:1/orders"
    assert sentence(manage("check", DATABASE_URL=url, WEIR_OBEY_ROBOTS="ture")).startswith("WEIR_OBEY_ROBOTS must be")


@pytest.mark.usefixtures("embedded_servers")
def test_a_statement_time_out_longer_than_postgresql_knows(manage: Manage) -> None:
    """It is cut to the longest, about 24 days: connections are made."""
    assert manage(*LIST, WEIR_STATEMENT_TIMEOUT="366d").returncode == 0


@pytest.mark.parametrize(
    "program",
    [
        "manage.py check",
        "-m celery -A project worker",
        "-m celery -A project beat",
        "-m uvicorn project.asgi:application --port 0",
    ],
)
def test_no_process_starts_with_variables_that_cannot_be_read(program: str, manage: Manage, tmp_path: Path) -> None:
    """Each ends at once; the last that it says is a sentence for each variable, and no traceback shows a password."""
    variables = {
        "DATABASE_URL": f"postgresql://weir:12@db.example:{SECRET}/orders",
        "WEIR_FETCH_TIMEOUT": "abc",
        "WEIR_OBEY_ROBOTS": "ture",
    }
    if program.startswith("-m"):
        with (tmp_path / "said").open("wb") as output:
            process = Forked(*program.split(), environment=environment(**variables), output=output)
        told = Told(program, process.wait(60), "", (tmp_path / "said").read_text())
    else:
        told = manage(*program.split()[1:], **variables)
    assert told.returncode != 0
    assert SECRET not in told.stdout + told.stderr
    lines = told.stderr.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["WEIR_FETCH_TIMEOUT", "WEIR_OBEY_ROBOTS"]
    assert "DATABASE_URL is malformed (" in lines[-3]
    if program.startswith("manage.py"):
        assert (told.returncode, len(lines)) == (1, 3)


# --- the broker -----------------------------------------------------------------------------------


def test_an_embedded_broker_that_does_not_run(manage: Manage, tmp_path: Path) -> None:
    """Without REDIS_URL and without a running Valkey, the command says how to start it."""
    told = sentence(manage(*FETCH, WEIR_HOME=tmp_path))
    assert told == "Valkey is not running: start it with `make up`, or set REDIS_URL to a server of your own."


@pytest.mark.parametrize("variable", ["REDIS_URL", "CELERY_BROKER_URL"])
def test_a_broker_that_does_not_answer(manage: Manage, variable: str) -> None:
    """A given broker that does not answer is named, with the variable that names it."""
    told = sentence(manage(*FETCH, **{variable: f"redis://:{SECRET}@127.0.0.1:1/0"}))
    assert told.startswith("Redis at 127.0.0.1:1/0 does not work (")
    assert told.endswith(f"Connection refused): check {variable}{DOCTOR}.")


def test_a_broker_that_refuses_the_password(manage: Manage) -> None:
    """A wrong password of the broker is told as such, and is not shown even if the broker repeats it."""
    with serving(WrongPassword) as port:
        told = sentence(manage(*FETCH, REDIS_URL=f"redis://:{SECRET}@127.0.0.1:{port}/0"))
    assert told.startswith(f"Redis at 127.0.0.1:{port}/0 answers, and refuses what it is told (")
    assert "invalid username-password pair" in told
    assert told.endswith(f"): correct the user and the password in REDIS_URL{DOCTOR}.")


# --- Redis' deltas --------------------------------------------------------------------------------


@pytest.fixture
def tables(transactional_db: None) -> str:  # noqa: ARG001  has them made
    """Return where the tests' database is."""
    return database_url(connection.settings_dict["NAME"])


@pytest.mark.parametrize("command", ["flush_unread", "reconcile_unread"])
def test_deltas_that_are_out_of_reach(manage: Manage, command: str, tables: str) -> None:
    """Redis is named with the variable that names it, though the broker may be another server."""
    servers = {"REDIS_URL": f"redis://:{SECRET}@127.0.0.1:1/0", "CELERY_BROKER_URL": f"amqp://u:{SECRET}@127.0.0.1:2/"}
    told = sentence(manage(command, "--skip-checks", DATABASE_URL=tables, **servers))
    assert told.startswith("Redis at 127.0.0.1:1/0 does not work (")
    assert told.endswith(f"Connection refused): check REDIS_URL{DOCTOR}.")


@pytest.mark.parametrize("kind", ["redis+sentinel", "redis+cluster"])
def test_deltas_on_several_servers_that_are_out_of_reach(manage: Manage, kind: str, tables: str) -> None:
    """They are named as the variable names them."""
    path = "/orders/0" if kind == "redis+sentinel" else ""
    servers = {
        "REDIS_URL": f"{kind}://:{SECRET}@127.0.0.1:1,127.0.0.1:2{path}",
        "CELERY_BROKER_URL": "redis://127.0.0.1:3/0",
    }
    told = sentence(manage("flush_unread", "--skip-checks", DATABASE_URL=tables, **servers))
    assert told.startswith(f"Redis at 127.0.0.1:1,127.0.0.1:2{path} does not work (")
    assert told.endswith(f"): check REDIS_URL{DOCTOR}.")


def test_a_cluster_without_a_broker_beside_it(manage: Manage, tables: str) -> None:
    """No process starts: Celery cannot use a cluster."""
    told = sentence(
        manage("flush_unread", "--skip-checks", DATABASE_URL=tables, REDIS_URL=f"redis+cluster://:{SECRET}@127.0.0.1")
    )
    assert told.startswith("CELERY_BROKER_URL must be set: REDIS_URL names a cluster, ")


def test_deltas_in_an_embedded_valkey_that_does_not_run(manage: Manage, tables: str, tmp_path: Path) -> None:
    """Without REDIS_URL the command says how to start it."""
    told = sentence(manage("flush_unread", "--skip-checks", DATABASE_URL=tables, WEIR_HOME=tmp_path))
    assert told == "Valkey is not running: start it with `make up`, or set REDIS_URL to a server of your own."


def test_deltas_behind_a_wrong_password(manage: Manage, tables: str) -> None:
    """It is told as such, and not shown even if Redis repeats it."""
    with serving(WrongPassword) as port:
        url = f"redis://:{SECRET}@127.0.0.1:{port}/0"
        told = sentence(manage("flush_unread", "--skip-checks", DATABASE_URL=tables, REDIS_URL=url))
    assert told.startswith(f"Redis at 127.0.0.1:{port}/0 answers, and refuses what it is told (")
    assert "invalid username-password pair" in told
    assert told.endswith(f"): correct the user and the password in REDIS_URL{DOCTOR}.")


def test_deltas_behind_a_malformed_url(manage: Manage, tables: str) -> None:
    """A port that cannot be read is the setting's fault."""
    url = f"redis://:{SECRET}@cache.example:port/0"
    told = sentence(manage("flush_unread", "--skip-checks", DATABASE_URL=tables, REDIS_URL=url))
    assert told.startswith("REDIS_URL is malformed (")


def test_a_reader_that_has_enough_ends_a_command_quietly() -> None:
    """As `head` does; the status is that of a program which SIGPIPE ended."""
    reader, writer = os.pipe()
    os.close(reader)
    told = subprocess.run(
        [sys.executable, "manage.py", "help"], cwd=CHECKOUT, env=environment(), stdout=writer, stderr=-1, check=False
    )
    os.close(writer)
    assert (told.returncode, told.stderr) == (141, b"")


def test_a_database_that_takes_no_writes_is_told(manage: Manage) -> None:
    """A standby after a fail-over, for example."""
    told = manage(
        "fetch",
        "--no-wait",
        "http://a.example/",
        "--skip-checks",
        DATABASE_URL=database_url(connection.settings_dict["NAME"]),
        DJANGO_SECRET_KEY="of a test",  # noqa: S106
        PGOPTIONS="-c default_transaction_read_only=on",
    )
    assert sentence(told).startswith("PostgreSQL could not do it: cannot execute INSERT in a read-only transaction")
