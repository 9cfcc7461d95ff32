"""The Celery application; every setting with the prefix CELERY_ in `project.settings` is its configuration."""

import os

from celery import Celery
from celery.signals import beat_init, setup_logging, worker_init

from project.broker import patch_kombu, take_url_from_settings
from project.environment.unknown import log_unknown
from project.logs.printed import log_what_tasks_print
from project.silent_broker import leave_when_silent
from weir.celery import integrate
from weir.workers import limits

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Without this, Celery makes each worker run Django's checks, which import all URLs, and does not report their messages.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

patch_kombu()
take_url_from_settings()
leave_when_silent()
log_what_tasks_print()
app = Celery("weir")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()  # `tasks.py` of every installed app
integrate(app, configure_sessions=False)  # `project.apps` configures all sessions
limits.finish_each_task()


@setup_logging.connect
def _leave_logging_to_django(**_signal: object) -> None:
    """Keep `LOGGING`: if this signal has a receiver, Celery does not set the root logger to its own level, WARNING."""


@worker_init.connect
@beat_init.connect
def _name_unknown_variables(**_signal: object) -> None:
    log_unknown()
