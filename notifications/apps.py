"""The app `notifications`: notifications in the site, and unread numbers that equal their rows."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """Registers the system checks, and has deleted users be forgotten."""

    name = "notifications"

    def ready(self) -> None:
        """Do what needs loaded apps: import the checks, which registers them, and listen to users' deletion."""
        from notifications import checks, forgetting  # noqa: F401, PLC0415

        forgetting.connect_to_users()
