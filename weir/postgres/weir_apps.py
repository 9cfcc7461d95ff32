"""What Weir's own apps have in common, whatever a project's settings say: their database, and their keys."""

from functools import cache
from typing import Any, Final

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Warning  # noqa: A004  Django's name
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Model
from django.db.utils import ConnectionRouter
from django.utils.functional import cached_property

from weir.conf import checks  # noqa: F401  registers the check of all settings, whichever app is installed

# Beat's tables are another package's. Beat and `sync_schedule` write them, and read what they wrote.
OF_BEAT: Final = "django_celery_beat"
# The attribute of a connection with a schema for each tenant: that of django-tenants and django-tenant-schemas.
_OF_TENANTS: Final = "schema_name"


class WeirApp(AppConfig):
    """An app of Weir's: its tables are in the database `default`, and have the keys that its migrations made."""

    default_auto_field = "django.db.models.BigAutoField"
    watched_queues: tuple[str, ...] = ()  # of tasks that are not Weir's: heartbeats are sent to these queues, too
    own_settings: tuple[str, ...] = ()  # begin with WEIR_, but are not declared in weir.conf: only the app reads them
    has_own_release = False  # whether a release writes the schedule, once all workers know its tasks, and not `migrate`


class WeirRouter:
    """Sends each query of Weir's tables to `default`, where Weir's own statements go.

    A standby may be seconds behind, or stand still: it does not show what was just written, and a queue that is read
    there is not the present one. Asked before all of DATABASE_ROUTERS, which decide about a project's own tables.
    """

    def db_for_read(self, model: type[Model], **_hints: Any) -> str | None:
        return DEFAULT_DB_ALIAS if is_weirs(model._meta.app_label) else None  # noqa: SLF001  documented

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool | None:
        """Let Weir's tables be made there, and once: a project with a schema for each tenant says in which schema.

        If there were two tables of the same name, workers would see one, and rows in the other would wait for ever.
        """
        if not is_weirs(app_label):
            return None
        if db != DEFAULT_DB_ALIAS:
            return False
        return None if hasattr(connections[db], _OF_TENANTS) else True


@cache
def installed() -> tuple[WeirApp, ...]:
    """Return Weir's apps that are installed.

    Known from the start: a test may have fewer apps for a while (`available_apps`).
    """
    apps.check_apps_ready()
    return tuple(config for config in apps.app_configs.values() if isinstance(config, WeirApp))


def is_installed(name: str) -> bool:
    """Return whether the app of Weir's with this name, such as `weir.workers.mail`, is installed."""
    return any(config.name == name for config in installed())


@cache
def labels() -> frozenset[str]:
    """Return the labels of Weir's installed apps, and of the app that has the schedule's tables."""
    return frozenset([*(config.label for config in installed()), OF_BEAT])


def is_weirs(label: str) -> bool:
    """Return whether the app with this label is one of Weir's, or has the schedule's tables."""
    return label in labels()


def holders(model: type[Model]) -> list[str]:
    """Return the fields of other apps, such as `shop.Page.fetch`, whose foreign keys keep this model's rows.

    Weir deletes old rows by statements of its own, in which Django does not do what `on_delete` says.
    """
    relations: Any = model._meta.get_fields(include_hidden=True)  # noqa: SLF001  documented
    return sorted(
        f"{relation.related_model._meta.label}.{relation.field.name}"  # noqa: SLF001  as above
        for relation in relations
        if relation.auto_created and (relation.one_to_many or relation.one_to_one)
        if getattr(relation.field, "db_constraint", False) and not is_weirs(relation.related_model._meta.app_label)  # noqa: SLF001
    )


def warn_of_holders(model: type[Model], *, rows: str, others: str, retention: str, id: str) -> list[CheckMessage]:  # noqa: A002  Django's name
    """Return a warning for each of the model's holders: no purge deletes the rows that it refers to.

    Nor does a purge delete other rows that are as old, which `others` describes.
    """
    return [
        Warning(
            f"{holder} has a foreign key to {rows}. While it refers to an old one, no purge deletes that, nor what "
            f"else {others} as long ago: the table grows for good.",
            hint=f"Set db_constraint=False, on_delete=models.DO_NOTHING; or delete what refers to old {rows} sooner "
            f"than {retention}, and silence this check.",
            id=id,
        )
        for holder in holders(model)
    ]


def ask_first() -> None:
    """Put WeirRouter before all of DATABASE_ROUTERS: no setting can leave it out, not even that of a single test.

    Django makes the list of routers anew if a test overrides that setting. Called when all apps are known.
    """
    labels()
    django: Any = ConnectionRouter
    of_settings = django.routers.func

    def routers(self: ConnectionRouter) -> list[object]:
        return [WeirRouter(), *of_settings(self)]

    django.routers = cached_property(routers)
    django.routers.__set_name__(ConnectionRouter, "routers")
    vars(router).pop("routers", None)
