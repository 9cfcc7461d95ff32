"""System checks of the notification settings."""

import math
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register


@register
def retention_is_positive(**_kwargs: Any) -> list[CheckMessage]:
    """weir.E005: WEIR_NOTIFICATION_RETENTION must be positive, also where a settings module or a test sets it."""
    if not 0 < settings.WEIR_NOTIFICATION_RETENTION < math.inf:  # which NaN is not
        message = f"WEIR_NOTIFICATION_RETENTION must be greater than 0, but is {settings.WEIR_NOTIFICATION_RETENTION}."
        return [Error(message, hint="Seconds that a read notification is kept.", id="weir.E005")]
    return []
