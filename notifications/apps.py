"""The app `notifications`: notifications in the site, and unread numbers that equal their rows."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """Registers the system checks."""

    name = "notifications"

    def ready(self) -> None:
        """Import the checks, which registers them."""
        from notifications import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
