"""The app `ratelimit`: sites, and the slots that are reserved at them."""

from django.apps import AppConfig


class RateLimitConfig(AppConfig):
    """Registers the system checks."""

    name = "ratelimit"

    def ready(self) -> None:
        """Import the checks, which registers them."""
        from ratelimit import checks  # noqa: F401, PLC0415  registering is the purpose; needs loaded apps
