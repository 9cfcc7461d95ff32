"""The app `workers.unread`: tasks and commands that keep the unread numbers of `notifications`, which knows neither."""

from django.apps import AppConfig


class UnreadConfig(AppConfig):
    """Owns the periodic tasks and the commands of unread numbers."""

    name = "workers.unread"
