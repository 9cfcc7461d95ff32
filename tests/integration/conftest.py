"""What several integration tests need: the broker's edge, a second connection, threads, processes."""

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection, connections
from pytest_django import DjangoDbBlocker, Settings

from demo.fakes import mail_server, sites
from demo.fakes.mail_server import MailServer
from project import embedded
from project.celery import app
from project.checkout import CHECKOUT
from tests.forked import Forked
from tests.waiting import in_time, wait_for
from weir.notifications import reconcile
from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit.held import process as held
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import Confirmation
from weir.ratelimit.round_trips import RoundTrips
from weir.ratelimit.slots import Reservation
from weir.redis_link import calls
from weir.workers import broker_link, task_names, ticks
from weir.workers.fetches import dispatch as dispatching
from weir.workers.fetches.fetcher import claim as claiming
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http import connector
from weir.workers.fetches.jobs import Job
from weir.workers.fetches.models import Fetch
from weir.workers.mail.sending import routes
from weir.workers.recovery import witness

# What a process of a test begins with: Django, on the database of the tests.
PREAMBLE = f"""
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "{settings.SETTINGS_MODULE}"
from django.conf import settings
settings.DATABASES["default"]["NAME"] = os.environ["WEIR_TEST_DATABASE"]
import django
django.setup()
"""

Message = tuple[str, tuple[Any, ...]]
Eventually = Callable[..., None]
WaitersOf = Callable[[psycopg.Connection[Any]], int]
Process = subprocess.Popen[str] | Forked
StartPython = Callable[..., Process]
InThreads = Callable[[int, Callable[[int], Any]], list[Any]]


@pytest.fixture(autouse=True)
def _no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process forget outages of the broker, and overloads, that another test met."""
    broker_link.forget_outage()
    monkeypatch.setattr(dispatching, "_overload", dispatching.Overload())


@pytest.fixture(scope="session", autouse=True)
def authorities_read_once() -> Iterator[None]:
    """Let the fetchers of this process share two TLS contexts: for each, reading the authorities takes 20 ms."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("context", "context_without_names"):
            patch.setattr(connector, name, cache(getattr(connector, name)))
        yield


@pytest.fixture(autouse=True)
def near_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make round trips to PostgreSQL count as short, however busy the machine is: the tests of graces are exact."""
    monkeypatch.setattr(RoundTrips, "expected_s", lambda _round_trips: 0.0)
    monkeypatch.setattr(Reservation, "is_too_short", lambda _reservation: False)


@pytest.fixture(autouse=True)
def _nothing_held(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Make this process forget the runs that a test's callers of `throttle` held: their rows are gone."""
    yield
    with django_db_blocker.unblock():
        held.close()
    held.forget()


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """Return the messages that are sent, as (task, arguments), in place of a broker."""
    sent: list[Message] = []

    def send_task(name: str, args: tuple[Any, ...] = (), **_options: Any) -> None:
        sent.append((name, tuple(args)))

    monkeypatch.setattr(app, "send_task", send_task)
    monkeypatch.setattr(ticks, "is_superfluous", lambda *_arguments: False)  # as an empty broker
    return sent


@pytest.fixture
def long_lookahead(settings: Settings) -> None:
    """Let dispatch reserve a minute ahead, so that no slot passes while a test is held up."""
    settings.WEIR_LOOKAHEAD = 60.0


@pytest.fixture
def valkey(transactional_db: None) -> Iterator[redis.Redis]:  # noqa: ARG001  asked for its effect
    """Return the tests' Valkey, empty; a pass has looked at it and trusts it, and this process knows of no outage."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushdb()
        calls.forget()
        report = reconcile.run_pass()
        assert report is not None
        assert report.trusted
        yield client


@pytest.fixture
def no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process not ask the witness, neither by a statement nor by a thread that still runs.

    At most once a second, a statement that asks the gate starts such a thread, whose calls a test would count as its
    own.
    """
    monkeypatch.setattr(gate._memory, "witness", lambda _generation: witness.UNKNOWN)
    for thread in threading.enumerate():
        if thread.name == "witness":
            thread.join()


@pytest.fixture
def known_again(transactional_db: None) -> Iterator[None]:  # noqa: ARG001  must come first
    """Let the history of PostgreSQL, which the test may make wrong, be right again afterwards; Redis knows it, too."""
    [right] = KnownTimeline.objects.values()
    gate.forget()
    yield
    gate.forget()
    highest = max(KnownTimeline.objects.get().generation, witness.exchange(witness.UNKNOWN))
    KnownTimeline.objects.update(**{**right, "generation": highest + 100})  # a thread may still tell Redis another


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[redis.Redis]:
    """Return a client of a Valkey that only this test uses."""
    home = tmp_path / "broker"
    home.mkdir()
    socket = str(embedded.valkey_socket(home))
    with embedded.servers(home, postgres=False, durable=False), redis.Redis(unix_socket_path=socket) as client:
        yield client


@pytest.fixture(scope="session")
def mail_server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailServer]:
    """Return a mail server for the whole session: a start takes a second, and addresses are never the same."""
    with mail_server.running(tmp_path_factory.mktemp("mail")) as running:
        yield running


@pytest.fixture
def mail(
    mail_server_of_all: MailServer,
    transactional_db: None,  # noqa: ARG001  who uses it sends what is in the database
    settings: Settings,
) -> Iterator[MailServer]:
    """Return the mail server, which behaves as addresses say; the settings name it, and the circuit is closed."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = mail_server.HOST, mail_server_of_all.port
    routes.forget_failures()
    yield mail_server_of_all
    routes.forget_failures()


@pytest.fixture
def other_connection(
    transactional_db: None,  # noqa: ARG001  asked for its effect
) -> Iterator[psycopg.Connection[Any]]:
    """Return a second connection to the database of the tests, in a transaction that is rolled back."""
    parameters = connection.get_connection_params()
    with psycopg.connect(**{**parameters, "cursor_factory": psycopg.Cursor}) as other:
        yield other
        other.rollback()


@pytest.fixture
def waiters() -> WaitersOf:
    """Return a function that counts the sessions which wait for a lock, through a connection that holds it."""

    def count(holder: psycopg.Connection[Any]) -> int:
        # Not pg_stat_activity, which shows one transaction always the same.
        row = holder.execute("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted").fetchone()
        return int(row[0]) if row else 0

    return count


@pytest.fixture
def eventually() -> Eventually:
    """Return a function that waits until a condition holds, and fails after a time-out that says for what."""

    def wait(condition: Callable[[], object], what: str, *, seconds: float = 20.0) -> None:
        wait_for(condition, seconds, what, every_s=0.01)

    return wait


@pytest.fixture
def in_threads() -> InThreads:
    """Return a function that calls another in n threads at once, each with a connection of its own."""

    def run(count: int, call: Callable[[int], Any]) -> list[Any]:
        together = threading.Barrier(count)

        def one(number: int) -> Any:
            try:
                connection.ensure_connection()
                together.wait(30)
                return call(number)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    return run


@pytest.fixture
def empty_database(transactional_db: None) -> Iterator[str]:  # noqa: ARG001  asked for its effect
    """Return the name of a database without tables."""
    name = f"{connection.settings_dict['NAME']}_empty"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    yield name
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def start_python(
    transactional_db: None,  # noqa: ARG001  asked for its effect
) -> Iterator[StartPython]:
    """Return a function that runs a script in a Python process, with Django set up on the database of the tests.

    What the script reads and prints goes through pipes. Processes that still run at the end are killed. They are forks
    of one that has imported Weir; where they have an environment of their own, or do something before Django, of one
    that has imported what is not ours. One that is `new` has imported nothing yet. So has one that does something
    before Django, unless it says otherwise.
    """
    started: list[Process] = []

    def start(
        script: str,
        *arguments: object,
        before: str = "",
        new: bool | None = None,
        environment: dict[str, str] | None = None,
    ) -> Process:
        words = ["-c", before + PREAMBLE + script, *map(str, arguments)]
        variables = {**environment_of_scripts(), **(environment or {})}
        if new or (before and new is None):
            started.append(
                subprocess.Popen(
                    [sys.executable, *words],
                    cwd=CHECKOUT,
                    env=variables,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        else:
            of_weir = not before and not environment
            started.append(Forked(*words, environment=variables, of_weir=of_weir))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def environment_of_scripts() -> dict[str, str]:
    """Return the environment of a process that begins with PREAMBLE."""
    return {
        **os.environ,
        "WEIR_TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "PYTHONPATH": str(CHECKOUT),
    }


def claim(fetch_ids: list[int]) -> list[Job]:
    """Claim as the message of the slots would that these fetches have now."""
    slots = [fetch.slot_id for fetch in Fetch.objects.filter(pk__in=fetch_ids) if fetch.slot_id is not None]
    return claiming.claim(slots, Confirmation(asked_at=math.inf))


def claimed(fetch_id: int) -> Job:
    """Claim a fetch that is reserved. Raises TooLateError if its slot has passed."""
    [job] = claimed_all([fetch_id])
    return job


def claimed_all(fetch_ids: list[int]) -> list[Job]:
    """Claim fetches that are reserved. Raises TooLateError if a slot has passed."""
    runs = Slot.objects.filter(pk__in=Fetch.objects.filter(pk__in=fetch_ids).values("slot_id")).values("use_until")
    first_end = runs.earliest("use_until")["use_until"]
    jobs = claim(fetch_ids)
    in_time(len(jobs) == len(fetch_ids) or database_now() < first_end, "a slot has passed")
    assert sorted(job.fetch_id for job in jobs) == sorted(fetch_ids)
    return jobs


def dispatch_message(*sites: str) -> Message:
    """Return the message that has dispatch reserve slots at these sites, whose backlogs were activated."""
    return (task_names.DISPATCH, (sorted(Site.objects.filter(name__in=sites).values_list("pk", flat=True)),))


def database_now() -> datetime:
    """Return the time by the clock that everything is judged by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


@contextmanager
def waiting_for_nobody() -> Iterator[None]:
    """Make what would wait for somebody else's lock fail."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '2s'")
        try:
            yield
        finally:
            cursor.execute("RESET lock_timeout")


@pytest.fixture
def running_sites(tmp_path: Path) -> Iterator[sites.Sites]:
    """Three fake sites."""
    with sites.running(3, tmp_path) as running:
        yield running


@pytest.fixture
def fetcher(settings: Settings) -> Iterator[Fetcher]:
    """Return a fetcher that may connect to the fake sites only."""
    settings.WEIR_FETCH_ALLOW_NETS = ["127.1.0.0/16"]
    settings.WEIR_FETCH_TIMEOUT = 2.0
    made = Fetcher()
    yield made
    made.close(1.0)
