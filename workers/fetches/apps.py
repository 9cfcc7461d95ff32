"""The app `fetches`: URLs that are fetched, each at the rate of its site."""

from django.apps import AppConfig


class FetchesConfig(AppConfig):
    """Registers the system checks."""

    name = "workers.fetches"
    label = "fetches"

    def ready(self) -> None:
        from workers.fetches import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
