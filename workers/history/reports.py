"""The history for charts and metrics: totals that only grow, and sums over the steps of a period.

    from weir.workers.history.reports import minutes, totals
    totals()["fetches_ended", "done"]
    minutes(24, 96)[-1].slots_used

A step without any known minute has None instead of its sums: a gap is not a zero.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db.models.functions import Now

from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.history.models import Minute, Total
from weir.workers.history.rollup import MARGIN_S, trail_s
from weir.workers.schedule import tick_of

MOST_POINTS: Final = 1_000
MOST_FAILURES: Final = 5_000
MOST_HOURS: Final = 366 * 24


class FailureClass(NamedTuple):
    """How many fetches failed for reasons of this class."""

    reason: str
    fetches: int


BATCH_FAILURES = Statement("batch_failures", row=FailureClass, commits=False)


class SitePoint(NamedTuple):
    """What happened at one site in one step: sums, except the lateness, which is that of the worst minute.

    The numbers after `missing` are None if no minute of the step is known. A minute is not known if it is a gap, or if
    it had more sites than have rows, and this one was not among the busiest. If it had fewer, the site had nothing.
    """

    since: datetime
    missing: int  # how many minutes of the step are not known
    fetches_done: int | None
    fetches_failed: int | None
    fetches_cancelled: int | None
    refused: int | None
    slots_used: int | None
    slots_given_back: int | None
    slots_missed: int | None
    slots_void: int | None
    slots_unreported: int | None
    slots_allowed: int | None
    lateness_p50_ms: float | None  # None also if no request was sent
    lateness_p99_ms: float | None


class Point(NamedTuple):
    """What happened at all sites in one step, as in SitePoint; and numbers of e-mails and of unread numbers."""

    since: datetime
    missing: int
    fetches_done: int | None
    fetches_failed: int | None
    fetches_cancelled: int | None
    refused: int | None
    slots_used: int | None
    slots_given_back: int | None
    slots_missed: int | None
    slots_void: int | None
    slots_unreported: int | None
    slots_allowed: int | None
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    emails_sent: int | None
    emails_failed: int | None
    emails_unknown: int | None
    unread_flushed: int | None


MINUTES = Statement("minutes", row=Point, commits=False)
SITE_MINUTES = Statement("site_minutes", row=SitePoint, commits=False)


def totals() -> dict[tuple[str, str], int]:
    """Return all totals by series and label; each only grows. Something that has never happened has no entry.

    The labels of `fetch_lateness` are the upper bounds of buckets in milliseconds (`rollup.LATENESS_MS`, or "inf"). The
    total of a bucket does not include the fetches of the buckets below it.
    """
    return {(series, label): value for series, label, value in Total.objects.values_list("series", "label", "value")}


def minutes(hours: int, points: int) -> list[Point]:
    """Return the last hours in evenly spaced points, the oldest first. Reads at most one row a minute.

    The last point ends at the time up to which the rollup should have come by now (`trail_s`). Raises ValueError for
    numbers out of range.
    """
    return MINUTES(**_steps(hours, points))


def site_minutes(site_id: int, hours: int, points: int) -> list[SitePoint]:
    """Return the last hours of one site in evenly spaced points, as `minutes` does."""
    return SITE_MINUTES(**_steps(hours, points), site=site_id)


def known_for() -> timedelta:
    """Return how long ago the first known minute began; zero before the first rollup. One look at an index."""
    first = Minute.objects.order_by("minute").annotate(now=Now()).values_list("minute", "now").first()
    return first[1] - first[0] if first else timedelta(0)


def _steps(hours: int, points: int) -> dict[str, object]:
    if not 1 <= hours <= MOST_HOURS or not 1 <= points <= MOST_POINTS:
        raise ValueError(f"hours must be from 1 to {MOST_HOURS:,} and points from 1 to {MOST_POINTS:,}.")
    step = timedelta(minutes=-(-hours * 60 // points))
    # The first rollup after a minute is due rolls it up.
    return {"step": step, "points": points, "trail": trail_s() + tick_of(task_names.ROLL_UP) + MARGIN_S}


def batch_failures(batch_id: int) -> list[FailureClass]:
    """Return the classes of errors of the batch's failed fetches; of those that were asked for last, MOST_FAILURES."""
    return BATCH_FAILURES(batch=batch_id, look=MOST_FAILURES)
