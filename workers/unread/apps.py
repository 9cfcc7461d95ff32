"""The app `weir.workers.unread`: tasks and commands that keep unread numbers; `weir.notifications` knows of neither."""

from weir.postgres import weir_apps


class UnreadConfig(weir_apps.WeirApp):
    """Owns the periodic tasks and the commands of unread numbers."""

    name = "weir.workers.unread"
    label = "weir_unread"
    verbose_name = "Weir: unread numbers"
