"""System checks of the environment."""

import os
from typing import Any

from django.core.checks import CheckMessage, Warning, register  # noqa: A004  Django's name

from project.environment.unknown import unknown

UNKNOWN_VARIABLE = "weir.W003"


@register
def variables_are_known(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W003: a variable that begins with WEIR_, or is one letter off one of Django's, is read by nobody."""
    hint = "Where it is a variable of another version of Weir, nothing has to be done."
    return [Warning(sentence, hint=hint, id=UNKNOWN_VARIABLE) for _, sentence in unknown(os.environ)]
