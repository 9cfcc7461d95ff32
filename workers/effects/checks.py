"""System checks of kinds of effects."""

from typing import Any, Final

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


SHORTEST_RETENTION_S: Final = 86_400.0


@register()
def effects_are_kept_for_long_enough(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W047: what calls `once` again, such as a task of a queue that stood still, must find the effect."""
    if not 0 < settings.WEIR_EFFECT_RETENTION < SHORTEST_RETENTION_S:
        return []
    message = (
        f"WEIR_EFFECT_RETENTION is {settings.WEIR_EFFECT_RETENTION:g} s, less than a day: whatever calls `once` again "
        "after that time has the effect happen twice."
    )
    hint = "Set it to more than the longest time after which such a call may be repeated; 0 keeps effects for ever."
    return [Warning(message, hint=hint, id="weir.W047")]


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
