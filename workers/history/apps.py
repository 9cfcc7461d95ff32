"""The app `workers.history`: what was, minute by minute, and totals that only grow."""

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    """Owns the tables of the history, and the task that fills them."""

    name = "workers.history"
    verbose_name = "History"
