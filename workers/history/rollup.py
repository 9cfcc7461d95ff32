"""Rollup: adds what happened in each past minute to totals that only grow, and stores rows of the minute.

The rows of minutes are kept for WEIR_HISTORY_RETENTION.

1. Lock the row of the watermark, which says up to which minute the history is rolled up. If another process has the
   lock, there is nothing to do.
2. Roll up the next minute with one statement, which also moves the watermark (sql/rollup.sql).
3. Commit, and go on with the next minute.

A slot belongs to the minute of its start, a fetch to the minute of its end. An outcome is written up to a lease after
the start of its slot, and is visible when its transaction has committed. So the rollup of a minute waits for the time
that both may take (`trail_s`).
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
MOST_MINUTES: Final = 240  # in one call; the next call goes on
MOST_SITES: Final = 200  # the busiest sites of a minute, which get rows of their own
LATENESS_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0)  # upper bounds
# How many seconds a statement is expected to take at most, until its commit, if statements have no time limit.
LONGEST_STATEMENT_S: Final = 60.0
MARGIN_S: Final = 5.0
NOTES_OF_EPOCHS_S: Final = 86_400.0  # how long flushed epochs are remembered (weir.notifications.removal.retention)
PURGE_BATCH: Final = 5_000
PURGE_WITHIN_S: Final = 5.0


class NextMinute(NamedTuple):
    """The next minute to roll up. It is whole if nothing that counts in it can have been purged."""

    minute: datetime
    epoch: int
    is_whole: bool


BEGIN = Statement("begin", commits=True)
NEXT_MINUTE = Statement("next_minute", row=NextMinute, commits=False)
PURGE_MINUTES = Statement("purge_minutes", returns=int, commits=True)
PURGE_SITE_MINUTES = Statement("purge_site_minutes", returns=int, commits=True)
ROLLUP = Statement("rollup", commits=False)


def trail_s() -> float:
    """Return how many seconds after its end a minute may be rolled up: by then everything that happened in it is known.

    A run may last as long as dispatch reserves ahead. Its holder has `longest_hold_s` to store an outcome; after that,
    sweep stores one. Either statement may take as long as the time limit of statements allows.
    """
    statement_s = settings.WEIR_STATEMENT_TIMEOUT or LONGEST_STATEMENT_S
    return settings.WEIR_LOOKAHEAD + longest_hold_s() + tick_of(task_names.SWEEP) + statement_s + MARGIN_S


def kept_s() -> float:
    """Return the seconds from a minute's beginning for which all rows that count in the minute are kept."""
    return min(settings.WEIR_SLOT_RETENTION, settings.WEIR_FETCH_RETENTION, NOTES_OF_EPOCHS_S) - MARGIN_S


def needed_s() -> float:
    """Return the seconds from a minute's beginning until it is rolled up: its rows must be kept as long."""
    return MINUTE.total_seconds() + trail_s() + tick_of(task_names.ROLL_UP) + MARGIN_S


def roll_up(most: int = MOST_MINUTES) -> int:
    """Roll up at most `most` of the minutes that are due, the oldest first; return how many.

    Each minute commits by itself. Safe to run twice, concurrently, or killed anywhere: no minute is added twice, and
    none is missed. A minute whose rows may have been purged in part gets no row, but the rows that are left count in
    the totals. Minutes older than WEIR_HISTORY_RETENTION are skipped.
    """
    BEGIN()
    rolled_up = 0
    while rolled_up < most and _roll_up_next():
        rolled_up += 1
    return rolled_up


def purge() -> None:
    """Delete minutes older than WEIR_HISTORY_RETENTION, in short batches; keep the totals. May be killed anywhere."""
    for statement in (PURGE_MINUTES, PURGE_SITE_MINUTES):
        batches.delete(
            statement, batch=PURGE_BATCH, within_s=PURGE_WITHIN_S, older_than=settings.WEIR_HISTORY_RETENTION
        )


def _roll_up_next() -> bool:
    """Roll up one minute; return False if no minute is due, or another process holds the watermark's lock."""
    parameters = {"trail": trail_s(), "kept": kept_s(), "retention": settings.WEIR_HISTORY_RETENTION}
    with transaction.atomic(durable=True):
        planner.by_indexes()
        due = NEXT_MINUTE(**parameters)
        bounded.without_limit()  # a minute that takes longer than the time limit would stop the history forever
        for minute in due:
            ROLLUP(**minute._asdict(), bounds=list(LATENESS_MS), most_sites=MOST_SITES)
    return bool(due)
