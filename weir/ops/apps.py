"""The app `ops`: what operators see of all parts of Weir."""

from weir.postgres import weir_apps


class OpsConfig(weir_apps.WeirApp):
    """Owns the operators' pages, and /metrics, from which machines read the same numbers."""

    name = "weir.ops"
    label = "weir_ops"
    verbose_name = "Weir: operators' pages"

    def ready(self) -> None:
        """Register the system checks."""
        from weir.ops import checks  # noqa: F401, PLC0415  importing registers the checks
