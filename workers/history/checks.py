"""System checks of the history."""

import math
from typing import Any

from django.core.checks import CheckMessage, Warning  # noqa: A004  Django's name

from weir.conf import settings
from weir.conf.checks import register
from weir.workers.history.rollup import needed_s

RETENTIONS = {
    "WEIR_SLOT_RETENTION": "slots",
    "WEIR_FETCH_RETENTION": "ended fetches",
    "WEIR_HISTORY_RETENTION": "minutes of the history",
}


@register()
def what_counts_is_kept_until_it_is_counted(**_kwargs: Any) -> list[CheckMessage]:
    """weir.W005: a retention is so short that rows may be deleted before their minute is rolled up.

    Such rows are missing in the totals, and their minute has no row.
    """
    needed = needed_s()
    hint = f"Write {math.ceil(needed)} or more, or lower WEIR_FETCH_TIMEOUT."
    return [
        Warning(
            f"{name} is {kept:g} (seconds): {what} are deleted before the history has counted them, which may be "
            f"{needed:.0f} s later.",
            hint=hint,
            id="weir.W005",
        )
        for name, what in RETENTIONS.items()
        if (kept := getattr(settings, name)) < needed
    ]
