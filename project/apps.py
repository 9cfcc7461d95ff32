"""The app `project`: the environment, and what holds for each connection to PostgreSQL, whichever app opens it."""

import gc
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from postgres import sessions


class ProjectConfig(AppConfig):
    """Configures sessions, and registers the system checks."""

    name = "project"

    def ready(self) -> None:
        from project import checks  # noqa: F401, PLC0415  registering is the purpose
        from project.logs.requests import name_requests  # noqa: PLC0415  django-structlog reads the settings

        name_requests()
        connection_created.connect(_configure, dispatch_uid="weir")
        gc.freeze()  # what was imported stays: no collection looks at it again, nor at the end, and forks share it
        gc.enable()


def _configure(connection: Any, **_signal: object) -> None:  # noqa: ANN401  one of Django's backends
    with connection.wrap_database_errors:
        sessions.configure(connection.connection)
