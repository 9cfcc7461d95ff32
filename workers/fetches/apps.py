"""The app `fetches`: URLs to fetch, each in its site."""

from django.apps import AppConfig


class FetchesConfig(AppConfig):
    """Registers the system checks."""

    name = "workers.fetches"
    label = "fetches"

    def ready(self) -> None:
        """Import the checks, which registers them."""
        from workers.fetches import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
