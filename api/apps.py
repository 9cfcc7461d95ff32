"""The app `api`: what programs ask and change over HTTP."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """Owns the answers that are kept for repeated requests, and the task that deletes old ones."""

    name = "api"
    verbose_name = "API"
