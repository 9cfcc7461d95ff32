"""The app `workers.overview`: one look at what all rooms do."""

from django.apps import AppConfig


class OverviewConfig(AppConfig):
    """Owns the command `status`."""

    name = "workers.overview"
