"""The app `orders`: what was ordered, and the e-mail that says it was shipped."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """Registers the system checks."""

    name = "workers.orders"
    label = "orders"

    def ready(self) -> None:
        """Import the checks, which registers them."""
        from workers.orders import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
