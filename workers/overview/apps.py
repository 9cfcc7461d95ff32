"""The app `weir.workers.overview`: the state of all jobs and processes at one look."""

from weir.postgres import weir_apps


class OverviewConfig(weir_apps.WeirApp):
    """Owns the command `status`."""

    name = "weir.workers.overview"
    label = "weir_overview"
    verbose_name = "Weir: overview"
