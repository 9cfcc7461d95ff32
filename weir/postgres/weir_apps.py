"""What Weir's own apps have in common, whatever a project's settings say: their database and their primary keys."""

from functools import cache
from typing import Any, Final

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Warning  # noqa: A004  Django's name
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.models import Model
from django.db.utils import ConnectionRouter
from django.utils.functional import cached_property

from weir.conf import checks  # noqa: F401  registers the check of all settings, whichever app is installed

# The app of another package that has beat's tables. Beat and `sync_schedule` write these, and read what they wrote.
OF_BEAT: Final = "django_celery_beat"
# The attribute that a connection of django-tenants or django-tenant-schemas has: there, each tenant has a schema.
_OF_TENANTS: Final = "schema_name"


class WeirApp(AppConfig):
    """One of Weir's apps. Its tables are in the database `default`, with the primary keys that migrations created."""

    default_auto_field = "django.db.models.BigAutoField"
    watched_queues: tuple[str, ...] = ()  # queues of other tasks than Weir's, to which heartbeats are sent, too
    own_settings: tuple[str, ...] = ()  # settings that begin with WEIR_, but that only the app reads, not weir.conf
    has_own_release = False  # whether not `migrate` but a release, when all workers know the tasks, writes the schedule


class WeirRouter:
    """Sends each query of Weir's tables to `default`, the database in which Weir executes its own statements.

    A standby may be seconds behind, or stopped: it does not show what was just written, and a queue that is read there
    is outdated. Django asks this router before DATABASE_ROUTERS, which decide about a project's own tables.
    """

    def db_for_read(self, model: type[Model], **_hints: Any) -> str | None:
        return DEFAULT_DB_ALIAS if is_weirs(model._meta.app_label) else None  # noqa: SLF001  documented

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool | None:
        """Create Weir's tables in `default` only, and once: if each tenant has a schema, the project chooses one.

        If there were two tables of the same name, workers would see one of them, and rows in the other would wait for
        ever.
        """
        if not is_weirs(app_label):
            return None
        if db != DEFAULT_DB_ALIAS:
            return False
        return None if hasattr(connections[db], _OF_TENANTS) else True


@cache
def installed() -> tuple[WeirApp, ...]:
    """Return Weir's apps that are installed.

    The result does not change later, even if a test has fewer apps for a while (`available_apps`).
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
    """Return the fields of other apps, such as `shop.Page.fetch`, whose foreign keys keep this model's rows alive.

    Weir deletes old rows through SQL of its own, to which Django does not apply `on_delete`.
    """
    relations: Any = model._meta.get_fields(include_hidden=True)  # noqa: SLF001  documented
    return sorted(
        f"{relation.related_model._meta.label}.{relation.field.name}"  # noqa: SLF001  as above
        for relation in relations
        if relation.auto_created and (relation.one_to_many or relation.one_to_one)
        if getattr(relation.field, "db_constraint", False) and not is_weirs(relation.related_model._meta.app_label)  # noqa: SLF001
    )


def warn_of_holders(model: type[Model], *, rows: str, others: str, retention: str, id: str) -> list[CheckMessage]:  # noqa: A002  Django's name
    """Return a warning for each of the model's holders: no purge deletes a row that the holder refers to.

    A purge does not delete other rows of the same age either; `others` describes these.
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
    """Put WeirRouter before all of DATABASE_ROUTERS, so that no setting can leave it out, not even in a single test.

    Django makes the list of routers anew if a test overrides that setting. To be called when all apps are known.
    """
    labels()
    django: Any = ConnectionRouter
    of_settings = django.routers.func

    def routers(self: ConnectionRouter) -> list[object]:
        return [WeirRouter(), *of_settings(self)]

    django.routers = cached_property(routers)
    django.routers.__set_name__(ConnectionRouter, "routers")
    vars(router).pop("routers", None)
