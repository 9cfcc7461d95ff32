"""The app `notifications`: notifications in the site, and unread numbers that equal their rows."""

from weir.conf import hidden
from weir.postgres import weir_apps


class NotificationsConfig(weir_apps.WeirApp):
    """Registers the system checks, and what other rooms are told: deleted users, lost rows, ticks without work."""

    name = "weir.notifications"
    label = "weir_notifications"
    verbose_name = "Weir: notifications"

    def ready(self) -> None:
        """Import the checks, which registers them, hide passwords of settings, and connect to what others tell."""
        from weir.notifications import checks  # noqa: F401, PLC0415  needs loaded apps, as the next
        from weir.notifications.maintenance import asking, forgetting, recovering  # noqa: PLC0415

        hidden.hide()
        forgetting.connect_to_users()
        recovering.connect()
        asking.connect()
