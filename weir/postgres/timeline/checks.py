"""System checks of the database that has Weir's tables, and of the project's settings that affect this database.

The checks belong to this app because every installation has it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning  # noqa: A004  Django's name
from django.db import DEFAULT_DB_ALIAS, connections, router
from psycopg import IsolationLevel

from weir.conf.checks import register
from weir.postgres.weir_apps import OF_BEAT, WeirApp, WeirRouter

OLDEST: Final = 150_000  # PostgreSQL 15, as the server tells its version
NEEDS: Final = "Weir needs PostgreSQL 15 or newer"
LABELS: Final = "weir_"  # the beginning of the labels of Weir's apps


@register()
def database_is_postgresql(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E032: Weir's tables and statements need PostgreSQL. Reported before a statement is executed."""
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql":
        return []
    message = f"{NEEDS}, but DATABASES['default'] is {database.display_name}."
    hint = (
        'Set its ENGINE to "django.db.backends.postgresql", and NAME, USER, PASSWORD and HOST to a server of that kind.'
    )
    return [Error(message, hint=hint, id="weir.E032")]


@register(Tags.database)
def server_is_new_enough(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """weir.E033: an older server lacks features that Weir's statements use."""
    database: Any = connections[DEFAULT_DB_ALIAS]
    if DEFAULT_DB_ALIAS not in (databases or ()) or database.vendor != "postgresql" or database.pg_version >= OLDEST:
        return []
    message = f"{NEEDS}, but the server of DATABASES['default'] is PostgreSQL {database.pg_version // 10_000}."
    return [Error(message, hint="Upgrade the server, or name another one.", id="weir.E033")]


@register()
def tables_are_in_default(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W031: a project's router cannot send Weir's tables elsewhere: WeirRouter is asked first."""
    elsewhere = _elsewhere(config for config in apps.get_app_configs() if isinstance(config, WeirApp))
    if not elsewhere:
        return []
    message = (
        f"DATABASE_ROUTERS sends Weir's tables to {', '.join(map(repr, elsewhere))}: they stay in 'default' all the "
        "same, where a transaction of yours is that of Weir's rows, too."
    )
    hint = f"Have db_for_write return None for the apps whose labels begin with {LABELS!r}."
    return [Warning(message, hint=hint, id="weir.W031")]


@register()
def schedule_is_in_default(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E034: beat reads its schedule in `default`, and would send no task of a schedule in another database."""
    elsewhere = _elsewhere(config for config in apps.get_app_configs() if config.label == OF_BEAT)
    if not elsewhere:
        return []
    message = (
        f"DATABASE_ROUTERS sends the tables of {OF_BEAT} to {', '.join(map(repr, elsewhere))}: Weir's beat reads the "
        "schedule in 'default', and would send none of the tasks that are there."
    )
    hint = f"Move these rows to 'default', and have your routers return None for {OF_BEAT}."
    return [Error(message, hint=hint, id="weir.E034")]


def _elsewhere(configs: Iterable[AppConfig]) -> list[str]:
    """Return the databases other than `default` in which a project's own routers would write the apps' tables."""
    ask = [
        each.db_for_write
        for each in router.routers
        if not isinstance(each, WeirRouter) and hasattr(each, "db_for_write")
    ]
    models = (model for config in configs for model in config.get_models())
    said = {next(filter(None, (asked(model) for asked in ask)), DEFAULT_DB_ALIAS) for model in models}
    return sorted(said - {DEFAULT_DB_ALIAS})


@register()
def times_have_a_zone(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E022: without USE_TZ, Django's times cannot be compared with PostgreSQL's, and beat ends with an error."""
    message = "USE_TZ must be True: Weir's times have a zone, as PostgreSQL's have."
    hint = "TIME_ZONE may be any: pages and forms of yours show times in it."
    return [] if settings.USE_TZ else [Error(message, hint=hint, id="weir.E022")]


@register()
def transactions_see_what_was_committed(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W012: Django begins transactions at `isolation_level`; above READ COMMITTED, a second writer is refused."""
    level = connections[DEFAULT_DB_ALIAS].settings_dict["OPTIONS"].get("isolation_level")
    if not isinstance(level, int) or level <= IsolationLevel.READ_COMMITTED:  # Django refuses other types
        return []
    message = (
        f"DATABASES['default']['OPTIONS']['isolation_level'] is {IsolationLevel(level).name}: what two ask at once, "
        'such as by request_fetch(..., dedupe=True), raises OperationalError for one of them ("could not serialize").'
    )
    hint = "Leave it out, and begin those transactions of yours that need it by SET TRANSACTION ISOLATION LEVEL."
    return [Warning(message, hint=hint, id="weir.W012")]
