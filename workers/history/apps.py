"""The app `weir.workers.history`: what was, minute by minute, and totals that only grow."""

from weir.postgres import weir_apps


class HistoryConfig(weir_apps.WeirApp):
    """Owns the tables of the history, and the task that fills them; registers the system checks."""

    name = "weir.workers.history"
    label = "weir_history"
    verbose_name = "Weir: history"

    def ready(self) -> None:
        from weir.workers.history import checks  # noqa: F401, PLC0415  it registers the checks; needs loaded apps
