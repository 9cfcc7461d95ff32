"""Rollup: what happened in each past minute is added to totals that only grow, and kept for WEIR_HISTORY_RETENTION.

1. The row of the watermark is locked, which says up to which minute that is done. While another process has the lock,
   there is nothing to do.
2. The next minute is rolled up by one statement, which also moves the watermark (sql/rollup.sql).
3. That commits, and the next minute has its turn.

A slot or a fetch belongs to the minute of its start, or its end. An outcome is written up to a lease later than the
start of its slot, and seen when that has committed. So the rollup trails by the time that both may take (`trail_s`).
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import transaction

from weir.conf import settings
from weir.postgres import batches, bounded, planner
from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.fetches.jobs import longest_hold_s
from weir.workers.schedule import tick_of

MINUTE: Final = timedelta(minutes=1)
MOST_MINUTES: Final = 240  # of one call: what is left is for the next one
MOST_SITES: Final = 200  # that get rows of their own, in each minute
LATENESS_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0)  # upper bounds
# Seconds until what a statement wrote has committed, where statements have no time limit.
LONGEST_STATEMENT_S: Final = 60.0
MARGIN_S: Final = 5.0
NOTES_OF_EPOCHS_S: Final = 86_400.0  # seconds for which a flush is remembered (weir.notifications.removal.retention)
PURGE_BATCH: Final = 5_000
PURGE_WITHIN_S: Final = 5.0


class NextMinute(NamedTuple):
    """The minute that is to be rolled up; it is whole if nothing that counts in it can have been purged."""

    minute: datetime
    epoch: int
    is_whole: bool


BEGIN = Statement("begin", commits=True)
NEXT_MINUTE = Statement("next_minute", row=NextMinute, commits=False)
PURGE_MINUTES = Statement("purge_minutes", returns=int, commits=True)
PURGE_SITE_MINUTES = Statement("purge_site_minutes", returns=int, commits=True)
ROLLUP = Statement("rollup", commits=False)


def trail_s() -> float:
    """Return how many seconds after its end a minute is rolled up: all that happened in it is known by then.

    A run may last as long as dispatch reserves ahead. Its holder has `longest_hold_s` to store an outcome, and sweep
    stores one for it then. Either statement may take as long as statements may.
    """
    statement_s = settings.WEIR_STATEMENT_TIMEOUT or LONGEST_STATEMENT_S
    return settings.WEIR_LOOKAHEAD + longest_hold_s() + tick_of(task_names.SWEEP) + statement_s + MARGIN_S


def kept_s() -> float:
    """Return for how many seconds all that counts in a minute is kept, from the minute's beginning."""
    return min(settings.WEIR_SLOT_RETENTION, settings.WEIR_FETCH_RETENTION, NOTES_OF_EPOCHS_S) - MARGIN_S


def needed_s() -> float:
    """Return for how many seconds, from a minute's beginning, what counts in it must be kept: until it is rolled up."""
    return MINUTE.total_seconds() + trail_s() + tick_of(task_names.ROLL_UP) + MARGIN_S


def roll_up(most: int = MOST_MINUTES) -> int:
    """Roll up the minutes that are due, `most` at a time, the oldest first; returns how many.

    Each commits by itself. Safe to run twice, at once, or killed anywhere: no minute is added twice, and none is
    missed. A minute of which something may have been purged gets no row, but what is left of it goes into the totals.
    Minutes beyond WEIR_HISTORY_RETENTION are passed over.
    """
    BEGIN()
    rolled_up = 0
    while rolled_up < most and _roll_up_next():
        rolled_up += 1
    return rolled_up


def purge() -> None:
    """Delete what is older than WEIR_HISTORY_RETENTION, in short batches; totals are kept. May be killed anywhere."""
    for statement in (PURGE_MINUTES, PURGE_SITE_MINUTES):
        batches.delete(
            statement, batch=PURGE_BATCH, within_s=PURGE_WITHIN_S, older_than=settings.WEIR_HISTORY_RETENTION
        )


def _roll_up_next() -> bool:
    """Roll up one minute; False where none is due, or another process is at it."""
    parameters = {"trail": trail_s(), "kept": kept_s(), "retention": settings.WEIR_HISTORY_RETENTION}
    with transaction.atomic(durable=True):
        planner.by_indexes()
        due = NEXT_MINUTE(**parameters)
        bounded.without_limit()  # a minute too large for it would stop the history for good
        for minute in due:
            ROLLUP(**minute._asdict(), bounds=list(LATENESS_MS), most_sites=MOST_SITES)
    return bool(due)
