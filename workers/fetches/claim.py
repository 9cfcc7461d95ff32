"""Claiming: a fetcher takes the fetches of one message, each once, with their places in time."""

import time
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003  kept where a reader looks for it
from functools import partial

import structlog
from django.conf import settings
from django.db import Error

from postgres import statements
from ratelimit.pacing import Run
from workers.fetches import backlog

log = structlog.get_logger(__name__)
_run = partial(statements.run, "workers.fetches")

# Seconds beyond all deadlines of a fetch before its holder counts as dead: time for storing the result.
STORING = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One claimed fetch: what to request, and when."""

    fetch_id: int
    url: str
    redirects: int
    attempts: int
    max_attempts: int
    slot_id: int
    start_at: float  # this process' monotonic clock
    run: Run  # shared by the jobs of one lane in one message
    site_id: int = 0
    is_robots: bool = False  # a robots.txt that Weir asked for
    obeys_robots: bool = False  # not to be requested before robots.txt has been asked


def claim(fetch_ids: list[int], newest_slot: int) -> list[Job]:
    """Claim those of the fetches that are still reserved as their message says, in the order of their slots.

    `newest_slot` is the highest slot id of the message's fetches. A fetch that has a newer one was taken back since and
    booked again, as part of a run that belongs to whoever gets that run's message.

    What comes back belongs to this process until its lease runs out. Start times are the difference of two readings
    of the database's clock, counted from a round trip of its own: the later end for starts, the earlier for deadlines.
    """
    rows = _run(
        "claim",
        {
            "fetches": fetch_ids,
            "newest_slot": newest_slot,
            "lease": longest_hold_s(),
            "obey": settings.WEIR_OBEY_ROBOTS,
        },
    )
    asked_at = time.monotonic()
    database_now: datetime = _run("clock", {})[0].now
    answered_at = time.monotonic()
    runs: dict[tuple[int, datetime], Run] = {}
    jobs = []
    for row in (row for row in rows if row.usable):
        run = runs.get((row.site_id, row.use_until)) or runs.setdefault(
            (row.site_id, row.use_until),
            Run(
                interval_s=row.interval_s,
                burst=row.burst,
                use_until=asked_at + (row.use_until - database_now).total_seconds(),
            ),
        )
        jobs.append(
            Job(
                fetch_id=row.id,
                url=row.url,
                redirects=row.redirects,
                attempts=row.attempts,
                max_attempts=row.max_attempts,
                slot_id=row.slot_id,
                start_at=answered_at + (row.start_time - database_now).total_seconds(),
                run=run,
                site_id=row.site_id,
                is_robots=row.is_robots,
                obeys_robots=row.obeys_robots,
            )
        )
    try:
        backlog.mark(row.site_id for row in rows if not row.usable)
    except Error:  # the jobs are ours by now and must not be dropped; sweep looks for overlooked lanes
        log.exception("backlog_not_marked")
    return jobs


def longest_hold_s() -> float:
    """Return how long after its slot a fetch may still be with its fetcher, in seconds: all deadlines and storing."""
    deadlines = (
        settings.WEIR_FETCH_DNS_TIMEOUT,
        settings.WEIR_FETCH_CONNECT_TIMEOUT,
        settings.WEIR_FETCH_TIMEOUT,
    )
    return float(sum(deadlines) + STORING)
