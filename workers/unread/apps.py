"""The app `workers.unread`: Celery tasks that keep the unread numbers of `notifications`, which does not use Celery."""

from django.apps import AppConfig


class UnreadConfig(AppConfig):
    """Owns the periodic tasks of unread numbers."""

    name = "workers.unread"
