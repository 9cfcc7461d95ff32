"""The app `weir.workers.overview`: one look at what all rooms do."""

from weir.postgres import weir_apps


class OverviewConfig(weir_apps.WeirApp):
    """Owns the command `status`."""

    name = "weir.workers.overview"
    label = "weir_overview"
    verbose_name = "Weir: overview"
