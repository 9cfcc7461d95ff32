"""The app `ratelimit`: sites, and the slots that are reserved at them."""

from weir.postgres import weir_apps


class RateLimitConfig(weir_apps.WeirApp):
    """Registers the system checks."""

    name = "weir.ratelimit"

    def ready(self) -> None:
        """Import the checks, which registers them."""
        from weir.ratelimit import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
