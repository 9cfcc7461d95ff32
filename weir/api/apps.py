"""The app `api`: the HTTP API for programs."""

from weir.postgres import weir_apps


class ApiConfig(weir_apps.WeirApp):
    """Owns the answers that are kept for repeated requests, and the task that deletes old ones."""

    name = "weir.api"
    label = "weir_api"
    verbose_name = "Weir: API"
