"""A second database, of another make, has the tables of one app."""

from typing import Any

from django.db.models import Model

from project.settings import *  # noqa: F403  a project's settings are taken over so

DATABASES["legacy"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "ATOMIC_REQUESTS": True}  # noqa: F405
DATABASE_ROUTERS = ["tests.setups.second_database.Router"]


class Router:
    """Has the app `legacy` in the database of this name. Of all other apps it says nothing, as many routers do."""

    def db_for_read(self, model: type[Model], **_hints: Any) -> str | None:
        return "legacy" if model._meta.app_label == "legacy" else None

    db_for_write = db_for_read

    def allow_migrate(self, _db: str, app_label: str, **_hints: Any) -> bool | None:
        return _db == "legacy" if app_label == "legacy" else None
