"""The system checks of all settings, and the decorator that registers a check that reads settings."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  Django's name

from weir.conf import live
from weir.conf.mistakes import UnreadableSetting
from weir.conf.texts.suggestions import did_you_mean

Check = Callable[..., Sequence[CheckMessage]]


def register(*tags: str, deploy: bool = False) -> Callable[[Check], Check]:
    """Register a system check as Django does. If a setting cannot be read, weir.E030 reports it, and not this check."""

    def registered(check: Check) -> Check:
        @wraps(check)
        def found(*places: Any, **given: Any) -> Sequence[CheckMessage]:
            try:
                return check(*places, **given)
            except UnreadableSetting:
                return []  # weir.E030 reports it

        return checks.register(found, *tags, deploy=deploy)

    return registered


@checks.register
def settings_can_be_read(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E030: the value of each setting must be of the setting's kind, such as a length of time."""
    return [
        Error(sentence, hint="docs/reference/settings.md has all settings.", id="weir.E030")
        for sentence in live.mistakes()
    ]


@checks.register
def settings_are_known(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W032: a setting that begins with WEIR_ and is not one of Weir's has no effect: its name may be misspelt."""
    known = [*live.names()]
    for config in apps.get_app_configs():
        known += getattr(config, "own_settings", ())
    hint = "Take it out; where it is a setting of your own, give it a name that does not begin with WEIR_."
    return [
        Warning(f"Weir has no setting {name}.{did_you_mean(name, known)}", hint=hint, id="weir.W032")
        for name in dir(settings)
        if name.startswith("WEIR_") and name not in known
    ]
