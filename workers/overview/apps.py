"""The app `workers.overview`: one look at what all rooms do."""

from postgres import weir_apps


class OverviewConfig(weir_apps.WeirApp):
    """Owns the command `status`."""

    name = "workers.overview"
