"""The app `workers.throttled`: Celery tasks that start only in a slot of their site."""

from django.apps import AppConfig


class ThrottledConfig(AppConfig):
    """Owns the postponed tasks."""

    name = "workers.throttled"
