"""The app `workers.unread`: has workers keep the unread numbers of `notifications`, which knows nothing of Celery."""

from django.apps import AppConfig


class UnreadConfig(AppConfig):
    """Owns the periodic tasks of unread numbers."""

    name = "workers.unread"
