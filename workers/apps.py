"""The app `workers`: what all Celery tasks share, the schedule, and the heartbeats that prove that tasks run."""

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    """Owns the heartbeat."""

    name = "workers"
