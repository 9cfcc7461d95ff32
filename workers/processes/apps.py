"""The app `workers.processes`: which processes run, and which of them go on."""

from django.apps import AppConfig


class ProcessesConfig(AppConfig):
    """Owns the table of processes."""

    name = "workers.processes"
