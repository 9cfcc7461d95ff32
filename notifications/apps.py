"""The app `notifications`: notifications in the site, and unread numbers that equal their rows."""

from weir.postgres import weir_apps


class NotificationsConfig(weir_apps.WeirApp):
    """Registers the system checks, and has deleted users be forgotten."""

    name = "weir.notifications"

    def ready(self) -> None:
        """Do what needs loaded apps: import the checks, which registers them, and listen to users' deletion."""
        from weir.notifications import checks, forgetting  # noqa: F401, PLC0415

        forgetting.connect_to_users()
