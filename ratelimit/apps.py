"""The app `ratelimit`: sites, and the slots that are reserved at them."""

from weir.postgres import weir_apps


class RateLimitConfig(weir_apps.WeirApp):
    """Owns the sites and the slots."""

    name = "weir.ratelimit"
    label = "weir_ratelimit"
    verbose_name = "Weir: sites"
