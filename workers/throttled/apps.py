"""The app `workers.throttled`: Celery tasks that start only in their site's slot."""

from django.apps import AppConfig


class ThrottledConfig(AppConfig):
    """Owns the postponed tasks."""

    name = "workers.throttled"
