"""System checks of what machines read."""

from typing import Any

from django.core.checks import CheckMessage, Error

from weir.conf import settings
from weir.conf.checks import register
from weir.ops.metrics.parts.sites import MOST_SITES
from weir.ratelimit import site_names


@register()
def metrics_sites_are_sites(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E018: WEIR_METRICS_SITES must name sites, and no more than a hundred: each has series of its own."""
    if (named := len(settings.WEIR_METRICS_SITES)) > MOST_SITES:
        return [Error(f"WEIR_METRICS_SITES names {named} sites; at most {MOST_SITES} may be.", id="weir.E018")]
    try:
        for name in settings.WEIR_METRICS_SITES:
            site_names.canonical(name)
    except site_names.InvalidSiteName as error:
        return [Error(f"WEIR_METRICS_SITES: {error}", hint="Write api.example.com,example.com:8080.", id="weir.E018")]
    return []
