"""PostgreSQL: whether it is there, is the right one, keeps what was committed, and has what Weir needs."""

import statistics
import time
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from django.core.checks import CheckMessage
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.migrations.executor import MigrationExecutor
from django_celery_beat.models import PeriodicTask

from project import errors
from project.doctor.findings import Check, Verdict, good, warning, wrong
from project.doctor.themes import pooling, rights
from weir.notifications.checks import tables_have_the_chosen_key
from weir.postgres import moments, sequences
from weir.postgres.statements import Statement
from weir.postgres.timeline import told
from weir.ratelimit.round_trips import FAR_S
from weir.workers import schedule as of_weir
from weir.workers.beat.rows import OWNED

SERVER, TABLES = "PostgreSQL", "the database's tables"  # what these checks provide
CONNECT_WITHIN_S = 8.0  # libpq has five seconds for each address
OLDEST = 150_000  # as server_version_num writes 15.0
FEWEST_SESSIONS = 40  # for one process of each kind in Procfile.split; the web process needs WEIR_WEB_REQUESTS
CROWDED = 0.8  # the share of the sessions that may be in use
LONG_S = 300.0  # with an older snapshot, the dead rows of busy sites add up
MANY_TRANSACTIONS = 100_000  # the limit if the age in seconds is not known: what a busy Weir executes in five minutes
CLOCK_OFF_S = 2.0
ROUND_TRIPS = 5
# For each kind of snapshot's holder (oldest_snapshot.sql): its name in a sentence, and how an operator ends it.
_HOLDERS = {
    "session": (
        "The transaction of pid {pid} ({name})",
        "end it, by SELECT pg_terminate_backend(pid) where need be",
    ),
    "prepared": ("The prepared transaction {name!r}", "end it by COMMIT PREPARED or ROLLBACK PREPARED"),
    "slot": (
        "The replication slot {name}",
        "end long queries on its standby, or drop the slot by pg_drop_replication_slot where none will come back",
    ),
    "standby": ("The standby of pid {pid} ({name})", "end long queries there, or its hot_standby_feedback"),
}


class ServerState(NamedTuple):
    """PostgreSQL's version, its settings for durability and writes, and its numbers of sessions."""

    version: str
    version_number: int
    is_standby: bool
    is_read_only: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    most_sessions: int
    sessions: int


class OldSnapshot(NamedTuple):
    """The oldest holder of dead rows of its kind."""

    kind: str  # a key of _HOLDERS
    pid: int | None
    name: str
    seconds: float | None  # None if the holder is not a transaction
    transactions: int


OLDEST_SNAPSHOT = Statement("oldest_snapshot", row=OldSnapshot, commits=True)
SERVER_STATE = Statement("server_state", row=ServerState, commits=True)


def version(server: ServerState) -> Verdict:
    """Judge the version."""
    if server.version_number < OLDEST:
        return wrong(f"PostgreSQL {server.version} is too old: upgrade it to 15 or newer.")
    return good(f"PostgreSQL {server.version}.")


def writes(server: ServerState) -> Verdict:
    """Judge whether rows can be written."""
    if server.is_standby:
        return wrong("This server is a standby, which takes no writes: set DATABASE_URL to the primary.")
    if server.is_read_only:
        return wrong("Transactions are read-only here: set default_transaction_read_only to off for the role.")
    return good("It takes writes.")


def durability(server: ServerState) -> Verdict:
    """Judge whether commits survive a crash. If they do not, slots are handed out a second time."""
    off = [name for name in ("fsync", "full_page_writes") if not getattr(server, name)]
    off += ["synchronous_commit"] if server.synchronous_commit == "off" else []
    if off:
        return wrong(
            f"{' and '.join(off)} is off, so that a crash forgets reservations, and their slots are handed out a "
            "second time: turn it on in postgresql.conf."
        )
    return good("A commit lasts: fsync, full_page_writes and synchronous_commit are on.")


def sessions(server: ServerState) -> Verdict:
    """Judge whether there is room for the connections of all processes."""
    used = f"{server.sessions} of {server.most_sessions} connections are in use"
    if server.most_sessions < FEWEST_SESSIONS:
        return warning(f"{used}, and one process of each kind needs {FEWEST_SESSIONS}: raise max_connections.")
    if server.sessions > CROWDED * server.most_sessions:
        return warning(f"{used}: raise max_connections before processes are refused.")
    return good(f"{used}.")


def distance(round_trip_s: float) -> Verdict:
    """Judge how far PostgreSQL is from this host."""
    text = f"A round trip takes {round_trip_s * 1000:.1f} ms"
    if round_trip_s < FAR_S:
        return good(f"{text}.")
    return warning(f"{text}, so that fast sites cannot use all of their rate: run the processes nearer to PostgreSQL.")


def clock(ahead_s: float) -> Verdict:
    """Judge by how much this host's clock is ahead of PostgreSQL's."""
    text = f"This host's clock is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} PostgreSQL's"
    if abs(ahead_s) < CLOCK_OFF_S:
        return good(f"{text}.")
    return warning(f"{text}: sites are paced right, but logs are not comparable: run NTP (chrony) on both.")


def snapshots(oldest: Sequence[OldSnapshot]) -> Verdict:
    """Judge the oldest snapshots, one of each kind."""
    for one in oldest:
        if one.transactions >= MANY_TRANSACTIONS if one.seconds is None else one.seconds >= LONG_S:
            who, end = _HOLDERS[one.kind]
            name = who.format(pid=one.pid, name=one.name or "without a name")
            since = f"{one.transactions:,} transactions" if one.seconds is None else f"{one.seconds / 60:.0f} minutes"
            return warning(f"{name} keeps the dead rows of {since}, which makes busy sites slow: {end}.")
    return good(f"No snapshot is older than {LONG_S / 60:.0f} minutes.")


def migrations(missing: int, foreign: int) -> Verdict:
    """Judge the numbers of migrations that are not applied, and of applied migrations that this code does not have."""
    if missing:
        text = "1 migration is" if missing == 1 else f"{missing} migrations are"
        return wrong(f"{text} not applied: run `python manage.py migrate`.")
    if foreign:
        return warning(f"The database knows {foreign} migrations that this version does not have: is it the newest?")
    return good("All migrations are applied.")


def history(refusal: str) -> Verdict:
    """Judge whether this server tells its history; `refusal` is the sentence that says that it does not."""
    if refusal:
        return wrong(refusal)
    return good("It tells its history, by which Weir notices what it has forgotten.")


def ids(found: Sequence[sequences.Behind]) -> Verdict:
    """Judge whether the sequences make ids that no row has yet."""
    if sentence := sequences.sentence(found):
        return wrong(sentence)
    return good("All sequences stand beyond the rows of their tables.")


def user_keys(found: Sequence[CheckMessage]) -> Verdict:
    """Judge whether notifications' tables were made for the users' keys that the settings name."""
    for message in found:
        return wrong(f"{message.msg} {message.hint}")
    return good("Notifications' tables are made for the users' keys that the settings name.")


def schedule(stored: dict[str, bool]) -> Verdict:
    """Judge Weir's entries in beat's schedule: their names, and whether they are enabled."""
    if stored.keys() != {entry.name for entry in of_weir.entries()}:
        return wrong("Beat's schedule is not that of this version: run `python manage.py sync_schedule`.")
    if off := sorted(name for name, is_enabled in stored.items() if not is_enabled):
        return warning(f"Disabled in beat's schedule: {', '.join(off)}. Enable them in the admin, periodic tasks.")
    return good(f"Beat's schedule has all {len(stored)} entries.")


class _Asking:
    """Answers that several checks use; PostgreSQL is asked once for each."""

    @cached_property
    def server(self) -> ServerState:
        return SERVER_STATE()[0]


def _connect() -> Verdict:
    connection.ensure_connection()
    return good(f"{errors.database_place()} answers.")


def _round_trip_s() -> float:
    took_s = []
    for _ in range(ROUND_TRIPS + 1):
        began_at = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        took_s.append(time.perf_counter() - began_at)
    return statistics.median(took_s[1:])


def _ahead_s() -> float:
    before = time.time()
    theirs = moments.now().timestamp()
    return (before + time.time()) / 2 - theirs


def _migrations() -> Verdict:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    ours = {label for label, _ in executor.loader.disk_migrations}
    applied = {key for key in executor.loader.applied_migrations if key[0] in ours}
    replaced = {key for migration in executor.loader.replacements.values() for key in migration.replaces}
    return migrations(len(missing), len(applied - executor.loader.disk_migrations.keys() - replaced))


def _user_keys() -> Verdict:
    return user_keys(tables_have_the_chosen_key([DEFAULT_DB_ALIAS]))


def _schedule() -> Verdict:
    owned = PeriodicTask.objects.filter(name__startswith=OWNED)
    return schedule({row.name: row.enabled or row.description == of_weir.NEW for row in owned})


def checks() -> list[Check]:
    """Return the checks of this theme."""
    asking = _Asking()
    return [
        Check(name="connection", ask=_connect, provides=SERVER, within_s=CONNECT_WITHIN_S),
        Check(name="version", ask=lambda: version(asking.server), needs=(SERVER,)),
        Check(name="writes", ask=lambda: writes(asking.server), needs=(SERVER,)),
        Check(name="history", ask=lambda: history(told.refusal()), needs=(SERVER,)),
        Check(name="durability", ask=lambda: durability(asking.server), needs=(SERVER,)),
        Check(name="connections", ask=lambda: sessions(asking.server), needs=(SERVER,)),
        Check(name="pooler", ask=pooling.ask, needs=(SERVER,)),
        Check(name="distance", ask=lambda: distance(_round_trip_s()), needs=(SERVER,)),
        Check(name="clock", ask=lambda: clock(_ahead_s()), needs=(SERVER,)),
        Check(name="snapshots", ask=lambda: snapshots(OLDEST_SNAPSHOT()), needs=(SERVER,)),
        Check(name="migrations", ask=_migrations, needs=(SERVER,), provides=TABLES, within_s=5),
        Check(name="sequences", ask=lambda: ids(sequences.behind()), needs=(SERVER, TABLES)),
        Check(name="users' keys", ask=_user_keys, needs=(SERVER,)),
        Check(name="rights", ask=rights.ask, needs=(SERVER, TABLES)),
        Check(name="schedule", ask=_schedule, needs=(SERVER, TABLES)),
    ]
