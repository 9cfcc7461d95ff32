"""The app `api`: what programs ask and change over HTTP."""

from weir.postgres import weir_apps


class ApiConfig(weir_apps.WeirApp):
    """Owns the answers that are kept for repeated requests, and the task that deletes old ones."""

    name = "weir.api"
    label = "weir_api"
    verbose_name = "Weir: API"
