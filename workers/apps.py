"""The app `workers`: Celery tasks, their schedule, and the proof that they run."""

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    """Owns the heartbeat and the postponed tasks."""

    name = "workers"
