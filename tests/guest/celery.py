"""The Celery application of the foreign project."""

from celery import Celery

app = Celery("guest")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
