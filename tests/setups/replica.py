"""Reads go to a replica, as Django's documentation has it; those of Django's own apps to where they are written."""

import os
from typing import Any

from django.db.models import Model

from project.settings import *  # noqa: F403  a project's settings are taken over so

# Where no variable names its host, nothing listens there: what is read from it fails.
HOST = os.environ.get("TEAM_REPLICA_HOST", "")
OF_REPLICA = {"HOST": HOST} if HOST else {"HOST": "127.0.0.1", "PORT": "1"}
DATABASES["replica"] = {**DATABASES["default"], **OF_REPLICA, "TEST": {"MIRROR": "default"}}  # noqa: F405
DATABASE_ROUTERS = ["tests.setups.replica.Router"]


class Router:
    """That of the documentation of Django ("Multiple databases"), but for who is signed in, and who may what."""

    def db_for_read(self, model: type[Model], **_hints: Any) -> str | None:
        return None if model.__module__.startswith("django.contrib.") else "replica"

    def db_for_write(self, _model: type[Model], **_hints: Any) -> str:
        return "default"

    def allow_relation(self, *_rows: Model, **_hints: Any) -> bool:
        return True

    def allow_migrate(self, db: str, _app_label: str, **_hints: Any) -> bool:
        return db == "default"
