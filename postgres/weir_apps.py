"""What Weir's own apps have in common, whatever a project's settings say: their database, and their keys."""

from typing import Any, Final

from django.apps import AppConfig, apps
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

# Beat's tables are another package's. Beat and `sync_schedule` write them, and read what they wrote.
_OF_BEAT: Final = "django_celery_beat"


class WeirApp(AppConfig):
    """An app of Weir's: its tables are in the database `default`, and have the keys that its migrations made."""

    default_auto_field = "django.db.models.BigAutoField"


class WeirRouter:
    """Has each query of Weir's tables go to `default`, where Weir's own statements go.

    A standby may be seconds behind, or stand still: what was just written there is not seen. A queue that is read there
    is not the queue. Asked before all of DATABASE_ROUTERS (`first`), so that these decide about a project's own tables.
    """

    def db_for_read(self, model: type[Model], **_hints: Any) -> str | None:
        return DEFAULT_DB_ALIAS if is_weirs(model._meta.app_label) else None  # noqa: SLF001  documented

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool | None:
        return db == DEFAULT_DB_ALIAS if is_weirs(app_label) else None


def is_weirs(label: str) -> bool:
    """Tell whether the app with this label is one of Weir's, or has the schedule's tables."""
    return label == _OF_BEAT or isinstance(apps.app_configs.get(label), WeirApp)


def labels() -> list[str]:
    """Return the labels of the apps of which `is_weirs` is true."""
    return [label for label in apps.app_configs if is_weirs(label)]
