"""The app `tokens`: what programs show to use the API."""

from django.apps import AppConfig


class TokensConfig(AppConfig):
    """Owns tokens, their admin page, and the command `tokens`."""

    name = "api.tokens"
    verbose_name = "API tokens"
