"""The system check of all settings, and how checks are registered that read them."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error

from weir.conf import live
from weir.conf.mistakes import UnreadableSetting

Check = Callable[..., Sequence[CheckMessage]]


def register(*tags: str, deploy: bool = False) -> Callable[[Check], Check]:
    """Register a system check as Django does. Of a setting that cannot be read it says nothing: weir.E030 does."""

    def registered(check: Check) -> Check:
        @wraps(check)
        def found(*places: Any, **given: Any) -> Sequence[CheckMessage]:
            try:
                return check(*places, **given)
            except UnreadableSetting:
                return []  # which is weir.E030

        return checks.register(found, *tags, deploy=deploy)

    return registered


@checks.register
def settings_can_be_read(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E030: each setting must be what its kind says, such as a length of time."""
    return [
        Error(sentence, hint="docs/reference/settings.md has all settings.", id="weir.E030")
        for sentence in live.mistakes()
    ]
