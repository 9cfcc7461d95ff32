"""The servers that every test with a database shares, and how their tables are emptied."""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.models import Model
from django.test import TransactionTestCase
from psycopg.pq import TransactionStatus
from pytest_django import DjangoDbBlocker
from pytest_django.plugin import blocking_manager_key

from demo.fakes import children
from project import embedded
from tests import byte_code, template
from tests.canaries import OF_FAKE_SITES, files_with_urls, watch_logging
from tests.forked import Forked, forks_are_in_this_network
from tests.home import DATABASE_URL, HOME, REDIS_URL
from tests.set_up import IS_POOLED
from tests.waiting import count_reruns_here, once_more_if_too_late
from weir.postgres import sessions, weir_apps
from weir.postgres.timeline import gate

if TYPE_CHECKING:
    import subprocess

ROOMS = ("demo", "notifications", "project", "ratelimit", "weir", "workers")
KINDS = ("acceptance", "integration", "unit")  # the slowest first
# What `migrate` wrote stays; a table without a page has not been written to since it was truncated.
# TRUNCATE makes new files, also for indexes and for all tables that refer to the table: it takes 25 ms where a DELETE
# takes less than one. So it is for what has grown, and for what PostgreSQL has counted: these statistics would outlive
# the rows, and the statements of a test would be planned for the rows of an earlier one.
# As TRUNCATE does, the DELETE waits for sessions that still write, and asks no trigger.
EMPTY_WRITTEN_TABLES = """
DO $$
DECLARE
    small text[];
    large text;
    counted oid[];
    its_name text;
BEGIN
    SELECT
        array_agg(its.name) FILTER (WHERE its.is_small),
        string_agg(its.name, ', ') FILTER (WHERE NOT its.is_small),
        array_agg(its.oid) FILTER (WHERE NOT its.is_small)
    INTO small, large, counted
    FROM (
        SELECT oid, format('%I', relname) AS name, reltuples < 0 AND pg_table_size(oid) <= 5 * 8192 AS is_small
        FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
            AND relname NOT IN (
                'django_migrations', 'django_content_type', 'auth_permission', 'weir_notifications_installation',
                'weir_timeline_knowntimeline'
            )
    ) AS its;
    IF small IS NOT NULL THEN
        EXECUTE 'LOCK TABLE ' || array_to_string(small, ', ') || ' IN SHARE ROW EXCLUSIVE MODE';
        PERFORM set_config('session_replication_role', 'replica', true);
        FOREACH its_name IN ARRAY small LOOP
            EXECUTE 'DELETE FROM ' || its_name;
        END LOOP;
        PERFORM set_config('session_replication_role', 'origin', true);
    END IF;
    IF large IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || large || ' CASCADE';
        DELETE FROM pg_statistic WHERE starelid = ANY (counted);
    END IF;
END
$$
"""

WITHOUT_AUTOVACUUM = """
DO $$
DECLARE
    own text;
BEGIN
    FOR own IN
        SELECT format('%I', relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE 'ALTER TABLE ' || own || ' SET (autovacuum_enabled = off)';
    END LOOP;
END
$$
"""

# What DISCARD ALL does, but for prepared statements: psycopg remembers which there are.
AS_NEW = "RESET ALL; DISCARD PLANS; DISCARD SEQUENCES; DISCARD TEMP; UNLISTEN *; SELECT pg_advisory_unlock_all()"

# On a machine that stands still for 0.2 s, an example would be too slow. Tests of what must be quick say so.
hypothesis.settings.register_profile(
    "slow machine",
    hypothesis.settings(),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("slow machine")


@pytest.hookimpl(trylast=True)  # after the plugin that asks
def pytest_configure(config: pytest.Config) -> None:
    count_reruns_here(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("numprocesses", None):  # other processes run the tests
        byte_code.write()
        template.make(session.config.stash[blocking_manager_key])
    gc.disable()  # the tests that are found stay in memory


def pytest_collection_finish() -> None:
    """Keep the tests, of which there are thousands, out of later garbage collections."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run acceptance tests first, and of these those that start all that they need: they take longest, the pages most.

    pytest-django would run last the tests that do not use its database.
    """

    def rank(item: pytest.Item) -> tuple[int, bool, Path]:
        kind = item.path.relative_to(Path(__file__).parent).parts[0]
        return (KINDS.index(kind), "cluster" in getattr(item, "fixturenames", ()), item.path)

    items.sort(key=rank)
    for item in items:
        once_more_if_too_late(item)


def empty_written_tables() -> None:
    """Make tables and sessions like new ones. Fails where the tests that follow would be granted nothing."""
    with connection.cursor() as cursor:
        cursor.execute(EMPTY_WRITTEN_TABLES)
        cursor.execute("SELECT weir_timeline_is_same(%s)", [gate._memory.generation])
        assert cursor.fetchone() == (True,), "A test leaves a wrong history of PostgreSQL: it needs known_again."
    renew_sessions()


def renew_sessions() -> None:
    """Make the sessions of this thread like new ones: to open one, and to learn again what the tables are, takes 25 ms.

    A session that is in a transaction is closed, and so is one of a pool, for which others may wait.
    """
    for each in connections.all(initialized_only=True):
        if each.connection is None:
            continue
        is_idle = each.connection.info.transaction_status is TransactionStatus.IDLE and not each.in_atomic_block
        if IS_POOLED or not is_idle:
            each.close()
            continue
        with psycopg.Cursor(each.connection) as cursor:
            cursor.execute(AS_NEW, prepare=False)
        each.init_connection_state()
        sessions.configure(each.connection)


@pytest.fixture(scope="session")
def embedded_servers() -> Iterator[None]:
    """PostgreSQL and Valkey, running for the whole test session; not durable, because nothing outlives it.

    Servers that variables name run already.
    """
    HOME.mkdir(parents=True, exist_ok=True)
    if DATABASE_URL and REDIS_URL:
        yield
        return
    with ExitStack() as stack:
        with template.copied():
            stack.enter_context(embedded.servers(HOME, postgres=not DATABASE_URL, valkey=not REDIS_URL, durable=False))
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    embedded_servers: None,  # noqa: ARG001  started before pytest-django creates the test database
    request: pytest.FixtureRequest,
) -> None:
    """Give each of several test processes that share a PostgreSQL a name of its own for its database."""
    if DATABASE_URL:
        request.getfixturevalue("django_db_modify_db_settings_parallel_suffix")


@pytest.fixture(scope="session")
def django_db_setup(
    embedded_servers: None,  # noqa: ARG001  with the template's files, if there are any
    request: pytest.FixtureRequest,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    """Keep autovacuum from the tables: what a plan is believed to know, or reads, would depend on when it comes by.

    The catalogs, which each test writes to, keep it.
    """
    with template.adopted():
        request.getfixturevalue("django_db_setup")  # pytest-django's
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(WITHOUT_AUTOVACUUM)


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> Iterator[None]:
    """Empty only what a test wrote to: Django's flush takes 0.2 s, most of it to write its own rows again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _test_case: empty_written_tables())
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda _test_case: False)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_children() -> Iterator[None]:
    """Fork the processes of fake sites and mail servers: a Python of its own takes a fifth of a second to import.

    In a network that a test has entered, each is a Python of its own: a fork would not be there.
    """
    start = children.start

    def fork(module: str, arguments: Sequence[str], inside: Sequence[str]) -> "subprocess.Popen[bytes] | Forked":
        if inside or not forks_are_in_this_network():
            return start(module, arguments, inside)
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": ""}  # it has imported nothing of what the fakes judge
        return Forked("-m", module, *arguments, environment=environment, folder=children.ABOVE_DEMO)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "start", fork)
        yield


@pytest.fixture(scope="session", autouse=True)
def weirs_queries_go_to_weirs_database() -> Iterator[None]:
    """Fail each query of Weir's, in any test, that a project's router would have sent elsewhere."""
    asked = weir_apps.WeirRouter.db_for_read

    def answer(weirs: weir_apps.WeirRouter, model: type[Model], **hints: Any) -> str | None:
        database = asked(weirs, model, **hints)
        assert database or model.__module__.partition(".")[0] not in ROOMS, f"{model} is read where others say"
        return database

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weir_apps.WeirRouter, "db_for_read", answer)
        patch.setattr(weir_apps.WeirRouter, "db_for_write", answer)
        yield


@pytest.fixture(scope="module")
def shared_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:  # noqa: ARG001
    """Let fixtures of a module fill tables for tests that share them; empty the tables after the last one.

    Such tests must be marked `django_db`, not `transaction=True`, so that what they write is rolled back.
    """
    with django_db_blocker.unblock():
        empty_written_tables()
        yield
        empty_written_tables()


@pytest.fixture(scope="session")
def lines_with_urls() -> Iterator[list[str]]:
    """The lines with more of a URL than its host that this process has logged, and for which no test was blamed yet."""
    with pytest.MonkeyPatch.context() as patch:
        found = watch_logging(patch)
        yield found
    assert not found


@pytest.fixture(autouse=True)
def no_url_is_logged(request: pytest.FixtureRequest, lines_with_urls: list[str]) -> Iterator[None]:
    """Assert after each test that no log has more of a URL than its host.

    This covers what this process has logged, and what processes have written into the logs in `tmp_path`.
    """
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    found = lines_with_urls.copy()
    del lines_with_urls[: len(found)]  # a thread may have added more meanwhile
    if folder:
        found += files_with_urls(log for log in folder.glob("*.log") if log.name not in OF_FAKE_SITES)
    assert not found, "\n".join(found[:3])


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords in a microsecond: a million rounds for the admin of each test take longer than the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "PASSWORD_HASHERS", ["django.contrib.auth.hashers.MD5PasswordHasher"])
        yield
