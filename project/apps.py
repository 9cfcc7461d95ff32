"""The app `project`: the environment, and the session settings of each connection to Weir's database."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.backends.signals import connection_created

from project import collect_as_ever
from weir.postgres import sessions, weir_apps


class ProjectConfig(weir_apps.WeirApp):
    """Configures sessions, sends Weir's queries to its database, and registers the system checks."""

    name = "project"
    label = "weir_project"
    verbose_name = "Weir: project"
    watched_queues = ("default",)  # CELERY_TASK_DEFAULT_QUEUE, the queue of the users' tasks
    own_settings = ("WEIR_DEMO_PAGE", "WEIR_TLS_PROXIES", "WEIR_WEB_MAX_BODY", "WEIR_WEB_REQUESTS")
    has_own_release = True  # `release` in the Procfile

    def ready(self) -> None:
        from project import celery, checks  # noqa: F401, PLC0415  they register checks and tasks
        from project.logs.requests import name_requests  # noqa: PLC0415  django-structlog reads the settings

        name_requests()
        connection_created.connect(_configure, dispatch_uid="weir")
        collect_as_ever()


def _configure(connection: Any, **_signal: object) -> None:  # noqa: ANN401  one of Django's backends
    """Configure a session with Weir's database. Other databases are the project's own, and need not be PostgreSQL."""
    if connection.alias == DEFAULT_DB_ALIAS and connection.vendor == "postgresql":  # a check refuses any other
        with connection.wrap_database_errors:
            sessions.configure(connection.connection)
