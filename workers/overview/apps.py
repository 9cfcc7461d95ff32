"""The app `weir.workers.overview`: the state of all jobs and processes at one look."""

from weir.postgres import weir_apps


class OverviewConfig(weir_apps.WeirApp):
    """Owns the command `status`, and tells operators what begins to need somebody."""

    name = "weir.workers.overview"
    label = "weir_overview"
    verbose_name = "Weir: overview"

    def ready(self) -> None:
        """Import the checks, and tell beat whether there are operators to be told."""
        from weir.conf import settings  # noqa: PLC0415  needs loaded apps
        from weir.workers import task_names  # noqa: PLC0415
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.overview import checks  # noqa: F401, PLC0415  registering is the purpose

        work.ask_before(task_names.TELL_OPERATORS, lambda: bool(settings.WEIR_OPERATORS), sent_every_s=float("inf"))
