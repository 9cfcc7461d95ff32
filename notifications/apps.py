"""The app `notifications`: notifications in the site, and unread numbers that equal their rows."""

from django.utils.module_loading import autodiscover_modules

from weir.conf import hidden
from weir.postgres import weir_apps


class NotificationsConfig(weir_apps.WeirApp):
    """Registers the system checks, and receivers for deleted users, for recoveries, and for beat's questions."""

    name = "weir.notifications"
    label = "weir_notifications"
    verbose_name = "Weir: notifications"

    def ready(self) -> None:
        """Register the checks by importing them, hide passwords of settings, and connect the receivers.

        Also imports the module `notification_kinds` of each installed app, which registers kinds of notification.
        """
        from weir.notifications import checks  # noqa: F401, PLC0415  needs loaded apps, like the next import
        from weir.notifications.maintenance import asking, forgetting, recovering  # noqa: PLC0415

        hidden.hide()
        forgetting.connect_to_users()
        recovering.connect()
        asking.connect()
        autodiscover_modules("notification_kinds")
