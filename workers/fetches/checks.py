"""System checks of the fetch settings."""

import math
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  Django's name

from weir.conf.texts.networks import networks, ports
from weir.workers.fetches.robots.user_agent import has_contact

SHORTEST_LOOKAHEAD, LONGEST_LOOKAHEAD = 1.0, 60.0  # seconds


@register
def allowed_networks_are_networks(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E002: each of WEIR_FETCH_ALLOW_NETS must be a network, also where a settings module or a test sets it."""
    try:
        networks(settings.WEIR_FETCH_ALLOW_NETS)
    except ValueError as error:
        return [Error(f"WEIR_FETCH_ALLOW_NETS: {error}.", hint="Write 10.1.0.0/16,fd00::/8.", id="weir.E002")]
    return []


@register
def allowed_ports_are_ports(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E014: each of WEIR_FETCH_ALLOW_PORTS must be a port or a range, also where a settings module sets it."""
    try:
        ports(settings.WEIR_FETCH_ALLOW_PORTS)
    except ValueError as error:
        return [Error(f"WEIR_FETCH_ALLOW_PORTS: {error}.", hint="Write 80,443,8000-8099.", id="weir.E014")]
    return []


@register
def times_are_positive(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E003: time-outs, caps and retentions must be positive, also where a settings module or a test sets them."""
    names = (
        "WEIR_FETCH_TIMEOUT", "WEIR_FETCH_CONNECT_TIMEOUT", "WEIR_FETCH_DNS_TIMEOUT",
        "WEIR_FETCH_MAX_BODY", "WEIR_FETCH_MAX_IN_FLIGHT", "WEIR_FETCH_MAX_MEMORY",
        "WEIR_FETCH_MAX_PER_ADDRESS", "WEIR_SLOT_RETENTION", "WEIR_FETCH_RETENTION",
        "WEIR_RETRY_AFTER_MAX", "WEIR_SITE_RETENTION", "WEIR_HISTORY_RETENTION", "WEIR_AUDIT_RETENTION",
    )  # fmt: skip
    return [
        Error(f"{name} must be greater than 0, but is {getattr(settings, name)}.", id="weir.E003")
        for name in names
        if not 0 < getattr(settings, name) < math.inf  # which NaN is not
    ]


@register
def look_ahead_is_within_bounds(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E004: with a look-ahead below dispatch's tick sites run dry; with a long one higher priorities wait."""
    if SHORTEST_LOOKAHEAD <= settings.WEIR_LOOKAHEAD <= LONGEST_LOOKAHEAD:
        return []
    message = (
        f"WEIR_LOOKAHEAD must be at least {SHORTEST_LOOKAHEAD:g} and at most {LONGEST_LOOKAHEAD:g} (seconds), "
        f"but is {settings.WEIR_LOOKAHEAD}."
    )
    hint = "Dispatch runs once a second and must reserve further ahead; a higher priority waits for what is reserved."
    return [Error(message, hint=hint, id="weir.E004")]


@register
def user_agent_fits_into_a_header(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E013: WEIR_FETCH_USER_AGENT must be printable ASCII: sites read other characters as they please."""
    user_agent = settings.WEIR_FETCH_USER_AGENT
    if user_agent.isascii() and user_agent.isprintable():
        return []
    message = f"WEIR_FETCH_USER_AGENT must be printable ASCII, on one line, but is {user_agent!a}."
    return [Error(message, hint="Write ShopBot/1.0 (+https://shop.example/bot).", id="weir.E013")]


@register(deploy=True)
def user_agent_has_contact(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W002: WEIR_FETCH_USER_AGENT should name a contact for a site's operator, as the way before a block."""
    if has_contact(settings.WEIR_FETCH_USER_AGENT):
        return []
    message = f"WEIR_FETCH_USER_AGENT names no contact: {settings.WEIR_FETCH_USER_AGENT!r}."
    hint = "Write a name, and a web page or an e-mail address: ShopBot/1.0 (+https://shop.example/bot)."
    return [Warning(message, hint=hint, id="weir.W002")]
