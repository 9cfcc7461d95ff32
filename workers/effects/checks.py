"""System checks of kinds of effects."""

from typing import Any

from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  Django's name

from weir.conf import settings
from weir.conf.checks import register
from weir.workers.effects import kinds


@register()
def no_probe_asks_too_early(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E042: a lost worker's request must not be in flight any more when a probe is asked about it."""
    after = settings.WEIR_EFFECT_UNKNOWN_AFTER
    return [
        Error(
            f"settles_after of {kind.name} is {kind.settles_after.total_seconds():g} s, but an effect whose worker is "
            f"lost is asked about after WEIR_EFFECT_UNKNOWN_AFTER, {after:g} s.",
            hint="Set WEIR_EFFECT_UNKNOWN_AFTER to more, or settles_after to less.",
            id="weir.E042",
        )
        for kind in kinds.registered()
        if kind.probe and kind.settles_after.total_seconds() > after
    ]


@register()
def keys_are_kept_for_long_enough(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W044: a key that is forgotten before a lost worker is noticed settles nothing."""
    after = settings.WEIR_EFFECT_UNKNOWN_AFTER
    return [
        Warning(
            f"The key_lifetime of {kind.name} settles nothing: it is not longer than WEIR_EFFECT_UNKNOWN_AFTER, "
            f"{after:g} s.",
            hint="Set WEIR_EFFECT_UNKNOWN_AFTER to less, or register a probe.",
            id="weir.W044",
        )
        for kind in kinds.registered()
        if kind.key_lifetime and not kind.probe and kind.key_lifetime.total_seconds() <= after
    ]
