"""The app `workers.history`: what was, minute by minute, and totals that only grow."""

from postgres import weir_apps


class HistoryConfig(weir_apps.WeirApp):
    """Owns the tables of the history, and the task that fills them; registers the system checks."""

    name = "workers.history"
    verbose_name = "History"

    def ready(self) -> None:
        from workers.history import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
