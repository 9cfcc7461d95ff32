"""The app `weir.workers.unread`: tasks and commands that keep unread numbers; `weir.notifications` knows of neither."""

from weir.postgres import weir_apps


class UnreadConfig(weir_apps.WeirApp):
    """Owns the periodic tasks and the commands of unread numbers."""

    name = "weir.workers.unread"
    label = "weir_unread"
    verbose_name = "Weir: unread numbers"

    def ready(self) -> None:
        """Have beat ask whether there is something to flush, to settle or to expire."""
        from weir.workers.unread import asking  # noqa: PLC0415  needs loaded apps

        asking.connect()
