import re
import time
from dataclasses import asdict, dataclass, fields
from typing import Any

import psycopg
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from weir.conf import settings as weir_settings
from weir.postgres import sessions, weir_apps
from weir.postgres.timeline import told

LOCK = 0x4D696772  # "Migr" in ASCII: the advisory lock of the process that migrates
POLL_S = 0.5
# A migration that waits for a lock holds up all statements that come later: for this long at most.
LOCK_TIMEOUT = "500ms"
PAUSE_S = 2.0  # in which those statements go on
GIVE_UP_AFTER_S = 600.0


@dataclass(frozen=True)
class LockLimits:
    """What ends the statements of a session, as PostgreSQL writes it."""

    lock_timeout: str
    statement_timeout: str
    # How often a statement checks whether its client is still there. Without it, PostgreSQL goes on for a client that
    # was killed: an index would become valid, and nothing would have recorded that.
    client_connection_check_interval: str = "1s"


UNLIMITED = LockLimits("0", "0")


class Command(migrate.Command):
    """Django's `migrate`, one at a time, and beside all processes that are at work.

    1. A second one waits until the first has ended, and finds nothing left to do. It asks again and again: a statement
       that waits has a snapshot, and an index that is built concurrently would wait for that.
    2. A migration that does not get a lock within LOCK_TIMEOUT is rolled back, and tried again after a pause.
    3. A migration that is not a transaction cannot be rolled back. It has concurrent operations only (CONTRIBUTING.md),
       which hold up no other statement: it may wait, and take, as long as it needs.
    4. If tests go without migrations, Weir's tables are still made by theirs, before all others: they need functions,
       constraints and rows that no model declares.

    For any other database than Weir's it is Django's. A second alias of Weir's database is refused: for it Django would
    record Weir's migrations as applied, and make no table, then or later.
    """

    _before: LockLimits | None = None

    def handle(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        if options["check_unapplied"]:
            return super().handle(*args, **options)  # it only looks
        if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
            return super().handle(*args, **options)  # its system checks refuse that
        if (alias := options["database"]) != DEFAULT_DB_ALIAS:
            if _is_weirs(connections[alias]):
                raise CommandError(
                    f"DATABASES[{alias!r}] is the database of DATABASES['default'], by which Weir's tables are made: "
                    f"for this command, have DATABASE_URL name what {alias!r} names, and leave --database out. "
                    "Nothing was migrated."
                )
            return super().handle(*args, **options)
        if weir_settings.WEIR_TRANSACTION_POOLING:
            raise CommandError(
                "migrate needs a session of its own, which a pooler of transactions does not give: have DATABASE_URL "
                "name PostgreSQL itself, and WEIR_TRANSACTION_POOLING be false, for this command."
            )
        if refusal := told.refusal():
            raise CommandError(f"{refusal} Nothing was migrated.")
        self._database = connections[DEFAULT_DB_ALIAS]
        lock = sessions.another(self._database)  # a session of its own: migrations begin and end transactions
        before = self._before = _limits(self._database)
        try:
            while not _took(lock):
                time.sleep(POLL_S)
            if not all(map(_has_migrations, weir_apps.labels())):
                self._migrate_weirs()
            return self._until_done(*args, **options)
        finally:
            lock.close()
            _set_limits(self._database, before)

    def migration_progress_callback(self, action: str, migration: Migration | None = None, fake: bool = False) -> None:
        if self._before and migration and action.endswith("_start"):
            within = LockLimits(LOCK_TIMEOUT, self._before.statement_timeout)
            _set_limits(self._database, within if migration.atomic else UNLIMITED)
        super().migration_progress_callback(action, migration, fake)

    def _migrate_weirs(self) -> None:
        """Make Weir's tables by their migrations, and before them, by their models, the tables that they refer to."""
        users = apps.get_app_config(settings.AUTH_USER_MODEL.partition(".")[0])
        self.verbosity = 0  # Django's method reads it
        self.sync_apps(self._database, {"contenttypes", "auth", users.label})
        others = {label: None for label in apps.app_configs if not weir_apps.is_weirs(label)}
        without, settings.MIGRATION_MODULES = settings.MIGRATION_MODULES, others
        try:
            executor = MigrationExecutor(self._database)
            executor.migrate(executor.loader.graph.leaf_nodes())
        finally:
            settings.MIGRATION_MODULES = without

    def _until_done(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  as above
        give_up_at = time.monotonic() + GIVE_UP_AFTER_S
        while True:
            try:
                return super().handle(*args, **options)
            except OperationalError as error:
                if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable) or time.monotonic() > give_up_at:
                    raise
                self.stdout.write(" waits for a lock that others hold, and tries again.")
                time.sleep(PAUSE_S)
            except DatabaseError as error:
                if not (remedy := self._remedy(error)):
                    raise
                self.stdout.write("")
                raise CommandError(remedy) from error

    def _remedy(self, error: DatabaseError) -> str:
        """Return what a person has to do, in a sentence; empty if that is not known."""
        if isinstance(error.__cause__, psycopg.errors.DuplicateTable):
            for name in self._invalid_indexes():
                if re.search(rf"\b{re.escape(name)}\b", str(error)):
                    return (
                        f"The index {name} was not built to its end, and PostgreSQL does not use it. As the role that "
                        f'owns the tables, execute: DROP INDEX CONCURRENTLY "{name}". Then migrate again.'
                    )
        if _lacks_rights(error):
            return (
                f"The role {self._database.settings_dict['USER']} may not change tables: have DATABASE_URL name the "
                "role that owns them, such as weir_owner, for this command (docs/how-to/harden.md)."
            )
        return ""

    def _invalid_indexes(self) -> list[str]:
        """Return the names of indexes that a killed migration has left, or that another session builds now."""
        with self._database.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid"
                " WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace"
            )
            return [name for (name,) in cursor.fetchall()]


def _is_weirs(database: BaseDatabaseWrapper) -> bool:
    """Return whether this alias names Weir's database, too, such as one that leads past a pooler."""
    return database.vendor == "postgresql" and _place(database) == _place(connections[DEFAULT_DB_ALIAS])


def _place(database: BaseDatabaseWrapper) -> tuple[object, ...]:
    """Return which server this is, by the time of its start, and which of its databases."""
    with database.cursor() as cursor:
        cursor.execute("SELECT pg_postmaster_start_time(), current_database()")
        return tuple(cursor.fetchone())


def _has_migrations(label: str) -> bool:
    """Return whether the settings leave the app its migrations."""
    return MigrationLoader.migrations_module(label)[0] is not None


def _lacks_rights(error: BaseException) -> bool:
    """Return whether PostgreSQL refused something for lack of rights; Django may pass that on as context only."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, psycopg.errors.InsufficientPrivilege):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _took(lock: BaseDatabaseWrapper) -> bool:
    with lock.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        return bool(cursor.fetchone()[0])


def _limits(database: BaseDatabaseWrapper) -> LockLimits:
    names = ", ".join(f"current_setting('{field.name}')" for field in fields(LockLimits))
    with database.cursor() as cursor:
        cursor.execute(f"SELECT {names}")
        return LockLimits(*cursor.fetchone())


def _set_limits(database: BaseDatabaseWrapper, limits: LockLimits) -> None:
    with database.cursor() as cursor:
        for name, value in asdict(limits).items():
            cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
