"""The process of the foreign project: Weir's apps change nothing that holds for all of it."""

import gc
import logging
import sys

from celery import current_app
from django.core.management import get_commands
from django.test import SimpleTestCase

from weir.workers.tasks import heartbeat

WITHOUT = ("project", "demo", "weir.workers.orders")


class Process(SimpleTestCase):
    """With all of Weir's apps in it."""

    def test_nothing_of_the_standalone_project_is_imported(self) -> None:
        assert [name for name in WITHOUT if name in sys.modules] == []

    def test_garbage_is_collected_as_ever(self) -> None:
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0

    def test_the_celery_application_is_the_projects(self) -> None:
        """Weir's tasks are bound to it."""
        assert current_app.main == heartbeat.app.main == "guest"

    def test_commands_and_loggers_of_others_are_theirs(self) -> None:
        assert get_commands()["migrate"] == "django.core"
        assert logging.getLoggerClass() is logging.Logger
