"""The app `weir.workers.history`: what happened in each minute, and totals that only grow."""

from weir.postgres import weir_apps


class HistoryConfig(weir_apps.WeirApp):
    """Owns the tables of the history, and the task that fills them; registers the system checks."""

    name = "weir.workers.history"
    label = "weir_history"
    verbose_name = "Weir: history"

    def ready(self) -> None:
        from weir.workers.history import checks  # noqa: F401, PLC0415  its import registers the checks, and needs loaded apps
