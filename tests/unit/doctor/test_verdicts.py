"""Each theme's decisions, made from what a server, a process or the system says."""

import resource
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  Django's name
from pytest_django import Settings

from project.doctor.findings import Level, Verdict
from project.doctor.themes import (
    fetching,
    host,
    mail,
    packages,
    pooling,
    postgresql,
    processes,
    queues,
    redis_server,
    rights,
    themes,
    variables,
)
from project.doctor.themes.postgresql import OldSnapshot
from tests.cases import for_each
from weir.workers.processes.status import ProcessStatus
from weir.workers.schedule import SCHEDULE, entries
from weir.workers.schedule import queues as all_queues

MIB = 2**20
SERVER = postgresql.ServerState(
    version="17.2",
    version_number=170_002,
    is_standby=False,
    is_read_only=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    most_sessions=97,
    sessions=20,
)
INFO = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "used_memory": 95,
    "aof_enabled": 0,
}
ENTRIES = {entry.name: True for entry in entries()}


def process(kind: str, *, state: str = "alive", version: str = "0.1.0", age_s: float = 600.0) -> ProcessStatus:
    now = datetime.now(UTC)
    return ProcessStatus(
        id=1,
        kind=kind,
        name=f"{kind}.1@host",
        host="host",
        pid=7,
        version=version,
        holds=0,
        started_at=now,
        turned_at=now,
        age_s=age_s,
        silent_s=20.0,
        is_lost=False,
        state=state,
    )


ALL = [process(kind) for kind in processes.KINDS]


@for_each(
    ("verdict", "level", "words"),
    [
        # Installation
        (packages.python_version("3.12.1", ">=3.11"), "good", "Python 3.12.1."),
        (packages.python_version("3.10.4", ">=3.11"), "wrong", "make install PYTHON="),
        (packages.packages(["a>=1", "b[x]>=2,<3"], {"a": "1.5", "b": "2.9"}.get), "good", "All 2 are"),
        (packages.packages(["a>=1; sys_platform == 'none'"], dict[str, str]().get), "good", "All 0 are"),
        (
            packages.packages(["a>=1", "b"], dict[str, str](a="0.9").get),
            "wrong",
            "a is 0.9 instead of >=1; b is not installed: run",
        ),
        # Settings
        (variables.production(in_production=True), "good", "as in production"),
        (variables.production(in_production=False), "not checked", "DATABASE_URL"),
        # PostgreSQL
        (postgresql.version(SERVER), "good", "PostgreSQL 17.2."),
        (postgresql.version(SERVER._replace(version="14.9", version_number=140_009)), "wrong", "upgrade it to 15"),
        (postgresql.writes(SERVER), "good", "takes writes"),
        (postgresql.writes(SERVER._replace(is_standby=True)), "wrong", "set DATABASE_URL to the primary"),
        (postgresql.writes(SERVER._replace(is_read_only=True)), "wrong", "default_transaction_read_only"),
        (postgresql.durability(SERVER), "good", "A commit lasts"),
        (postgresql.durability(SERVER._replace(fsync=False)), "wrong", "fsync is off"),
        (
            postgresql.durability(SERVER._replace(synchronous_commit="off", full_page_writes=False)),
            "wrong",
            "full_page_writes and synchronous_commit is off",
        ),
        (postgresql.durability(SERVER._replace(synchronous_commit="local")), "good", "A commit lasts"),
        (postgresql.sessions(SERVER), "good", "20 of 97 connections"),
        (postgresql.sessions(SERVER._replace(sessions=78)), "warning", "raise max_connections before"),
        (postgresql.sessions(SERVER._replace(most_sessions=20, sessions=1)), "warning", "raise max_connections"),
        (postgresql.distance(0.0004), "good", "0.4 ms"),
        (postgresql.distance(0.06), "warning", "60.0 ms, so that fast sites cannot use all of their rate"),
        (postgresql.clock(0.1), "good", "0.1 s ahead of"),
        (postgresql.clock(-3.0), "warning", "3.0 s behind PostgreSQL's"),
        (postgresql.snapshots([]), "good", "No snapshot"),
        (postgresql.snapshots([OldSnapshot("session", 4, "psql", 10.0, 10**6)]), "good", "No snapshot"),
        (
            postgresql.snapshots(
                [OldSnapshot("slot", None, "old", None, 10**4), OldSnapshot("session", 4, "psql", 900.0, 1)]
            ),
            "warning",
            "The transaction of pid 4 (psql) keeps the dead rows of 15 minutes",
        ),
        (
            postgresql.snapshots([OldSnapshot("prepared", None, "x", 900.0, 1)]),
            "warning",
            "The prepared transaction 'x' keeps the dead rows of 15 minutes",
        ),
        (
            postgresql.snapshots([OldSnapshot("slot", None, "old", None, 10**6)]),
            "warning",
            "The replication slot old keeps the dead rows of 1,000,000 transactions",
        ),
        (
            postgresql.snapshots([OldSnapshot("standby", 4, "", None, 10**6)]),
            "warning",
            "The standby of pid 4 (without a name) keeps the dead rows of 1,000,000 transactions",
        ),
        (postgresql.migrations(0, 0), "good", "All migrations"),
        (postgresql.migrations(1, 0), "wrong", "1 migration is not applied: run `python manage.py migrate`"),
        (postgresql.migrations(2, 0), "wrong", "2 migrations are not applied"),
        (postgresql.migrations(0, 2), "warning", "does not have: is it the newest?"),
        (
            rights.rights(rights.Rights("weir_app", False, 0, "")),
            "good",
            "weir_app reads and writes all tables",
        ),
        (rights.rights(rights.Rights("postgres", True, 0, "")), "good", "and may change them"),
        (
            rights.rights(rights.Rights("weir_app", False, 2, "weir_mail_email")),
            "wrong",
            "such as weir_mail_email: execute",
        ),
        (postgresql.schedule(ENTRIES), "good", "has all"),
        (postgresql.schedule({**ENTRIES, "weir: old": True}), "wrong", "sync_schedule"),
        (postgresql.schedule({}), "wrong", "sync_schedule"),
        (postgresql.schedule({**ENTRIES, SCHEDULE[0].name: False}), "warning", f"schedule: {SCHEDULE[0].name}. Enable"),
        # Redis
        (redis_server.version(INFO), "good", "Redis 7.2.4."),
        (redis_server.version({**INFO, "redis_version": "6.0.16"}), "wrong", "too old: upgrade"),
        (redis_server.version({**INFO, "server_name": "valkey", "valkey_version": "9.1.2"}), "good", "Valkey 9.1.2."),
        (
            redis_server.version({**INFO, "server_name": "valkey", "valkey_version": "7.2.5"}),
            "wrong",
            "Valkey 7.2.5 is",
        ),
        (redis_server.writes(INFO), "good", "takes writes"),
        (redis_server.writes({**INFO, "role": "slave"}), "wrong", "set its URL to the primary"),
        (redis_server.writes({**INFO, "rdb_last_bgsave_status": "err"}), "wrong", "its snapshot to its disk"),
        (redis_server.memory(INFO), "good", "memory has no limit"),
        (redis_server.memory({**INFO, "maxmemory": 100}), "warning", "95% of its memory"),
        (redis_server.memory({**INFO, "maxmemory": 1_000}), "good", "10% of its memory"),
        (redis_server.memory({**INFO, "maxmemory": 1_000, "maxmemory_policy": "allkeys-lru"}), "wrong", "noeviction"),
        (redis_server.memory({**INFO, "maxmemory_policy": "allkeys-lru"}), "warning", "set it to noeviction"),
        (redis_server.memory({**INFO, "maxmemory_policy": "volatile-ttl"}), "warning", "set it to noeviction"),
        (redis_server.persistence(INFO), "good", "costs time"),
        (redis_server.persistence({**INFO, "aof_enabled": 1}), "good", "keeps its data"),
        (redis_server.distance(0.001), "good", "1.0 ms"),
        (redis_server.distance(0.2), "warning", "run it nearer"),
        # Processes
        (processes.versions(ALL), "good", "All run Weir 0.1.0."),
        (processes.versions([]), "not checked", "No process runs."),
        (processes.versions([*ALL, process("beat", version="0.2.0")]), "warning", "0.1.0, 0.2.0 side by side"),
        (processes.distance(0.0), "good", "No process has measured"),
        (processes.distance(0.001), "good", "1.0 ms"),
        (processes.distance(0.08), "warning", "nearer to the primary"),
        # Fetching
        (fetching.names(["a.example"], lambda _host: "192.0.2.1"), "good", "a.example is 192.0.2.1."),
        (fetching.open_ports(4), "good", "4 ports"),
        (fetching.open_ports(65_535), "warning", "65,535 ports"),
        # E-mail
        (mail.sender("Shop <shop@shop.example>"), "good", "Shop <shop@shop.example>"),
        (mail.sender("webmaster@localhost"), "warning", "DEFAULT_FROM_EMAIL"),
        (mail.server("mail.example:25", ""), "good", "lets us in"),
        # This host
        (host.descriptors(resource.RLIM_INFINITY, 5_000), "good", "as it needs"),
        (host.descriptors(10_000, 5_000), "good", "as it needs"),
        (host.descriptors(1_024, 5_000), "warning", "614 fetches instead of 5,000: raise the hard limit"),
        (host.memory(None, 256 * MIB), "not checked", "Linux"),
        (host.memory(8_000 * MIB, 256 * MIB), "good", "needs 406 at most"),
        (host.memory(512 * MIB, 256 * MIB), "warning", "set WEIR_FETCH_MAX_MEMORY to less"),
        (host.disk(5_000 * MIB, Path("/data")), "good", "5,000 MiB are free for /data."),
        (host.disk(500 * MIB, Path("/data")), "warning", "make room"),
        (host.disk(50 * MIB, Path("/data")), "wrong", "make room"),
    ],
)
def test_a_check_decides(verdict: Verdict, level: str, words: str) -> None:
    """What is wrong comes with what to do."""
    assert (verdict.level, words in verdict.sentence) == (level, True), verdict


@for_each(
    ("verdicts", "told"),
    [
        (variables.names(["PATH", "WEIR_HOME"]), [("good", "Weir reads each variable")]),
        (variables.names(["WEIR_FETCH_ALOW_NETS"]), [("warning", "Did you mean WEIR_FETCH_ALLOW_NETS?")]),
        (processes.kinds(ALL), [("good", "1 beat, 1 fetcher, 1 mailer, 1 maintenance, 1 ticks, 1 worker run.")]),
        (processes.kinds([]), [("wrong", "`make up`")]),
        (processes.kinds(ALL[1:]), [("wrong", "No beat runs, so nothing is dispatched")]),
        (processes.kinds([*ALL[:-1], process("worker", state="silent")]), [("wrong", "No worker runs, so your own")]),
        (processes.silent(ALL), [("good", "Each goes on.")]),
        (processes.silent([]), [("not checked", "No process")]),
        (
            processes.silent([*ALL, process("beat", state="silent"), process("ticks", state="gone")]),
            [("wrong", "beat.1@host (pid 7) is silent for 20 s")],
        ),
        (
            queues.consumed([]),
            [("good", "Workers consume default, weir.ticks, weir.maintenance, weir.fetch, weir.mail.")],
        ),
        (queues.consumed(["weir.mail"]), [("wrong", "celery -A project worker --queues weir.mail")]),
        (queues.lengths(dict.fromkeys(all_queues(), 0)), [("good", "0 in default, 0 in weir.ticks")]),
        (
            queues.lengths({"default": 1_000, "weir.ticks": 40, "weir.fetch": 501}),
            [("warning", "40 mess"), ("warning", "501 mess")],
        ),
        (queues.beats([]), [("good", "for 3 minutes")]),
        (queues.beats(["weir.fetch"]), [("wrong", "restart its fetcher")]),
        (queues.tasks({"shop.tasks.arrived": 2}, ["shop.tasks.arrived"]), [("good", "each task")]),
        (
            queues.tasks({"shop.tasks.arived": 2_000}, ["shop.tasks.arrived"]),
            [
                (
                    "warning",
                    "2,000 of the newest fetches name a task 'shop.tasks.arived', which no app has. Did you mean",
                )
            ],
        ),
        (fetching.networks([]), [("good", "Only public")]),
        (fetching.networks([ip_network("10.1.0.0/16")]), [("good", "10.1.0.0/16.")]),
        (fetching.networks([ip_network("0.0.0.0/0")]), [("warning", "name your own networks only")]),
        (
            fetching.networks([ip_network("127.0.0.0/8"), ip_network("::1/128")]),
            [("warning", "for development only")] * 2,
        ),
        (fetching.networks([ip_network("fd00::/8")]), [("warning", "name your own")]),
        (fetching.networks([ip_network("64:ff9b::/96")]), [("warning", "name your own")]),  # by NAT64: all of IPv4
        (fetching.networks([ip_network("64:ff9b::a00:0/104")]), [("good", "64:ff9b::a00:0/104.")]),
        (fetching.networks([ip_network("64:ff9b::7f00:0/112")]), [("warning", "development only")]),
    ],
)
def test_a_check_may_say_several_things(verdicts: list[Verdict], told: list[tuple[str, str]]) -> None:
    """A sentence for each thing that is wrong, and one where nothing is."""
    assert len(verdicts) == len(told), verdicts
    for verdict, (level, words) in zip(verdicts, told, strict=True):
        assert (verdict.level, words in verdict.sentence) == (level, True), verdict


def test_names_that_cannot_be_resolved_are_a_warning() -> None:
    """A host without the internet can do all else."""

    def look_up(_host: str) -> str:
        raise OSError(-2, "Name or service not known")

    verdict = fetching.names(["a.example", "example.com"], look_up)
    assert verdict.level == Level.WARNING
    assert verdict.sentence == (
        "None of these names could be resolved: a.example (Name or service not known), example.com (Name or service "
        "not known): check this host's DNS, /etc/resolv.conf."
    )


def test_one_host_that_has_no_address_does_not_accuse_the_resolver() -> None:
    """Somebody has asked for a misspelt URL: another name is looked up."""

    def look_up(host: str) -> str:
        if host != "example.com":
            raise OSError(-2, "Name or service not known")
        return "192.0.2.1"

    verdict = fetching.names(["nobody.invalid", "example.com"], look_up)
    assert (verdict.level, verdict.sentence) == (Level.GOOD, "example.com is 192.0.2.1; nobody.invalid has no address.")


@pytest.mark.parametrize(("given", "level"), [("localhost", "warning"), ("mail.example", "wrong")])
def test_a_mail_server_that_does_not_let_us_in(given: str, level: str, settings: Settings) -> None:
    """Is wrong where somebody has named it; where nobody has, e-mails wait until somebody does."""
    settings.EMAIL_HOST = given
    verdict = mail.server(f"{given}:25", "ConnectionRefusedError: [Errno 111] Connection refused")
    assert verdict.level == level
    assert "e-mails wait (ConnectionRefusedError: [Errno 111] Connection refused)" in verdict.sentence
    assert "EMAIL_HOST" in verdict.sentence


@for_each(
    ("message", "in_production", "told"),
    [
        (
            Warning("Bad cookies.", hint="Mend\n them.", id="security.W012"),
            True,
            ("warning", "Bad cookies. Mend them."),
        ),
        (Warning("Bad cookies.", id="security.W012"), False, ("good", "`manage.py check --deploy` finds nothing.")),
        (Warning("Silenced.", id="security.W021"), True, ("good", "`manage.py check --deploy` finds nothing.")),
        (Warning("It is told already.", id="weir.W003"), True, ("good", "`manage.py check --deploy` finds nothing.")),
        (Error("No rate.", id="weir.E001"), False, ("wrong", "No rate.")),
    ],
)
def test_what_djangos_checks_find(message: CheckMessage, in_production: bool, told: tuple[str, str]) -> None:
    """Is told by its id; what is about a public network only in production."""
    [verdict] = variables.messages([message], in_production=in_production)
    assert (verdict.level, verdict.sentence) == told
    assert verdict.name == (message.id if told[0] != "good" else "")


@pytest.mark.parametrize(
    ("broker", "asked"),
    [
        ("", ["broker"]),
        ("amqp://mq.example//", ["broker"]),
        ("redis://cache.example:6379/1", ["broker", "broker's version", "broker's writes", "broker's memory"]),
    ],
)
def test_a_broker_that_is_another_redis_is_judged_as_one(
    broker: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the messages, which may not be dropped."""
    monkeypatch.setenv("CELERY_BROKER_URL", broker)
    assert [check.name for check in redis_server.checks() if check.name.startswith("broker")] == asked


def test_each_check_has_a_name_of_its_own_that_fits() -> None:
    """Within its theme; and what a check needs is provided by an earlier one."""
    provided: set[str] = set()
    for theme in themes():
        names = [check.name for check in theme.checks]
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= 18
        for check in theme.checks:
            assert set(check.needs) <= provided, check.name
            provided.add(check.provides)


LIMITS = pooling.ConnectionLimits(
    pid=7,
    statement_timeout="1min",
    idle_timeout="1min",
    isolation="read committed",
    compiles=False,
    interval_style="postgres",
    date_style="ISO, DMY",
    float_digits=1,
    array_nulls=True,
)


def test_without_a_pooler_of_transactions_all_is_well() -> None:
    assert pooling.pooling(LIMITS, changes_session=False, is_known=False).level == Level.GOOD


def test_a_pooler_of_transactions_must_be_known() -> None:
    found = pooling.pooling(LIMITS, changes_session=True, is_known=False)
    assert found.level == Level.WRONG
    assert "set WEIR_TRANSACTION_POOLING=true" in found.sentence


def test_behind_one_the_role_must_have_the_limits() -> None:
    """Also where the pool gave the same session twice."""
    assert pooling.pooling(LIMITS, changes_session=False, is_known=True).level == Level.GOOD
    found = pooling.pooling(LIMITS._replace(statement_timeout="0"), changes_session=True, is_known=True)
    assert found.level == Level.WRONG
    assert found.sentence.endswith("ALTER ROLE ... SET statement_timeout = '60s'.")
    found = pooling.pooling(LIMITS._replace(compiles=True), changes_session=True, is_known=True)
    assert found.sentence.endswith("ALTER ROLE ... SET jit = 'off'.")
    strange = LIMITS._replace(interval_style="iso_8601", date_style="German, DMY", float_digits=0, array_nulls=False)
    found = pooling.pooling(strange, changes_session=True, is_known=True)
    settings = ("intervalstyle = 'postgres'", "datestyle = 'ISO'", "extra_float_digits = '1'", "array_nulls = 'on'")
    assert found.sentence.endswith("; ".join(f"ALTER ROLE ... SET {setting}" for setting in settings) + ".")
