"""The app `notifications`: notifications in the site, and unread numbers that equal their rows."""

from weir.conf import hidden
from weir.postgres import weir_apps


class NotificationsConfig(weir_apps.WeirApp):
    """Registers the system checks, and forgets users who are deleted."""

    name = "weir.notifications"
    label = "weir_notifications"
    verbose_name = "Weir: notifications"

    def ready(self) -> None:
        """Import the checks, which registers them; hide passwords of settings; and listen for the deletion of users."""
        from weir.notifications import checks, forgetting  # noqa: F401, PLC0415

        hidden.hide()
        forgetting.connect_to_users()
