"""Deletes effects after their retention, with what people said about them."""

import math
from typing import Final

from weir.conf import settings
from weir.postgres import batches
from weir.postgres.statements import Statement

BATCH: Final = 500
WITHIN_S: Final = 5.0  # how long the purge may take, every ten minutes

PURGE = Statement("purge", returns=int, commits=True)


def purge(within_s: float = math.inf) -> int:
    """Delete the effects that ended WEIR_EFFECT_RETENTION ago, if that is set; return how many.

    What is `unknown`, or has not ended, stays, and so does what has not called its `on_done` yet. Works in short
    batches, which skip rows that other transactions hold locked. After `within_s` seconds the rest is left to the next
    call. May be killed anywhere.
    """
    if not settings.WEIR_EFFECT_RETENTION:
        return 0
    return batches.delete(PURGE, batch=BATCH, within_s=within_s, older_than=settings.WEIR_EFFECT_RETENTION)
