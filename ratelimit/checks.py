"""System checks of the rate settings."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from weir.conf.texts.rates import InvalidRate, parse_rate


@register
def default_rate_is_a_rate(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E001: WEIR_DEFAULT_RATE must be readable, also where a settings module or a test sets it."""
    try:
        parse_rate(settings.WEIR_DEFAULT_RATE)
    except InvalidRate as error:
        return [Error(f"WEIR_DEFAULT_RATE: {error}", id="weir.E001")]
    return []
