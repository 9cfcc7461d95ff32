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
# A migration that waits for a lock makes all later statements on the table wait; it waits this long at most.
LOCK_TIMEOUT = "500ms"
PAUSE_S = 2.0  # before the next attempt, while the statements that waited are executed
GIVE_UP_AFTER_S = 600.0


@dataclass(frozen=True)
class LockLimits:
    """Settings that limit the statements of a session, as PostgreSQL writes their values."""

    lock_timeout: str
    statement_timeout: str
    # How often PostgreSQL checks during a statement whether the client is connected. Otherwise it would finish the
    # statement of a killed client: an index would become valid, although its migration is not recorded as applied.
    client_connection_check_interval: str = "1s"


UNLIMITED = LockLimits("0", "0")


class Command(migrate.Command):
    """Django's `migrate`, one process at a time, while Weir's other processes work.

    1. A second `migrate` waits until the first has ended, and finds nothing left to do. It tries to get the advisory
       lock again and again: a statement that waited for the lock would keep a snapshot, and an index that is built
       concurrently would wait for that snapshot.
    2. A migration that does not get a lock within LOCK_TIMEOUT is rolled back, and tried again after a pause.
    3. A migration that is not a transaction cannot be rolled back. It has concurrent operations only (CONTRIBUTING.md),
       for which no other statement waits, so its statements have no time limit.
    4. If tests switch migrations off, Weir's migrations still make Weir's tables, before all other tables are made:
       Weir's tables need functions, constraints and rows that no model declares.

    For any other database than Weir's, this is Django's command. A second alias of Weir's database is refused: Django
    would record Weir's migrations as applied there, and would never make the tables.
    """

    _before: LockLimits | None = None

    def handle(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401  Django's signature
        if options["check_unapplied"]:
            return super().handle(*args, **options)  # this only reads
        if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
            return super().handle(*args, **options)  # the system checks refuse other databases
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
        lock = sessions.another(self._database)  # another session, because migrations begin and end transactions
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
        """Run Weir's migrations. Before, make the tables to which Weir's tables refer directly from their models."""
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
        """Return sentences that say what a person has to do about the error; "" if that is not known."""
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
        """Return the names of invalid indexes: a killed migration has left them, or another session builds them now."""
        with self._database.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid"
                " WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace"
            )
            return [name for (name,) in cursor.fetchall()]


def _is_weirs(database: BaseDatabaseWrapper) -> bool:
    """Return whether this alias is Weir's database, too, as an alias that connects past a pooler is."""
    return database.vendor == "postgresql" and _place(database) == _place(connections[DEFAULT_DB_ALIAS])


def _place(database: BaseDatabaseWrapper) -> tuple[object, ...]:
    """Return the start time of the server, which identifies it, and the name of the database."""
    with database.cursor() as cursor:
        cursor.execute("SELECT pg_postmaster_start_time(), current_database()")
        return tuple(cursor.fetchone())


def _has_migrations(label: str) -> bool:
    """Return whether the settings leave the app its migrations."""
    return MigrationLoader.migrations_module(label)[0] is not None


def _lacks_rights(error: BaseException) -> bool:
    """Return whether PostgreSQL refused a statement for lack of rights; Django may keep that error only as context."""
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
