"""The Celery application of the foreign project."""

from celery import Celery

from weir.celery import integrate

app = Celery("guest")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
integrate(app)
