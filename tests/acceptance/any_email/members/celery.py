"""The Celery app of the project."""

import os

from celery import Celery

from weir.celery import integrate

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.acceptance.any_email.members.settings")
app = Celery("members")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["tests.acceptance.any_email.members"])
integrate(app)
