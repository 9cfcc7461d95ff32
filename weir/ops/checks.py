"""System checks of the settings for metrics, and of the URL at which visitors sign out."""

from typing import Any

from django.core.checks import CheckMessage, Error, Tags
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch

from weir.conf import settings
from weir.conf.checks import register
from weir.ops.metrics.parts.sites import MOST_SITES
from weir.ratelimit import site_names


@register()
def metrics_sites_are_sites(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E018: WEIR_METRICS_SITES must name sites, at most a hundred, because each site has series of its own."""
    if (named := len(settings.WEIR_METRICS_SITES)) > MOST_SITES:
        return [Error(f"WEIR_METRICS_SITES names {named} sites; at most {MOST_SITES} may be.", id="weir.E018")]
    try:
        for name in settings.WEIR_METRICS_SITES:
            site_names.canonical(name)
    except site_names.InvalidSiteName as error:
        return [Error(f"WEIR_METRICS_SITES: {error}", hint="Write api.example.com,example.com:8080.", id="weir.E018")]
    return []


@register(Tags.urls)
def visitors_can_sign_out(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E035: WEIR_LOGOUT_URL must lead somewhere: every page has a button for it, so no page could be shown."""
    to = settings.WEIR_LOGOUT_URL
    if not to or _leads(to) or not _leads("weir_ops:overview"):
        return []
    message = f"WEIR_LOGOUT_URL is {to!r}, which is neither a path nor the name of a URL."
    return [Error(message, hint="Write /accounts/logout/, or a name that `reverse` knows.", id="weir.E035")]


def _leads(to: str) -> bool:
    """Return whether `to` is a path, or the name of a URL that the project has."""
    try:
        resolve_url(to)
    except NoReverseMatch:
        return False
    return True
