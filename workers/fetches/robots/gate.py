"""The gate between claiming and requesting: a job that the robots.txt of its origin disallows is not requested.

1. What is known of the origins of all jobs is looked up, and asked for where it is not known (files.py).
2. Each job is let through, or turned away with the event in which it ends: it waits for its robots.txt, it is
   disallowed, or it fails because its robots.txt cannot be read.

For the claimer's thread: the gate waits for the database, and applies rules. The site that wrote the rules determines
how long these take, so there is a limit for each origin. Jobs beyond it are given back, and come with a later claim.
"""

import time
from collections import defaultdict
from collections.abc import Iterable

import structlog
from django.db import Error

from ratelimit import clock
from workers.fetches.jobs import Disallowed, Event, Failure, Job, Snoozed
from workers.fetches.models import RobotsState
from workers.fetches.robots.files import Known, RobotsFiles
from workers.fetches.robots.rules import PATH, origin_of

log = structlog.get_logger(__name__)

# Seconds after which a fetch that waits for its robots.txt is due again; as a rule it is woken before.
WAIT = 1.0
APPLY_FOR = 0.1  # seconds of processor time after which one claim applies an origin's rules no more


def admit(jobs: Iterable[Job], files: RobotsFiles) -> tuple[list[Job], list[Event]]:
    """Return the jobs that may be requested, and the events of the others; both in the given order, none is dropped."""
    let_through: list[Job] = []
    spent_s: defaultdict[str, float] = defaultdict(float)  # by origin
    turned_away: list[Event] = []
    jobs = list(jobs)
    known = _known(jobs, files)
    for job in jobs:
        event = _timed_refusal(job, known, spent_s) if job.obeys_robots else None
        if event is None:
            let_through.append(job)
        else:
            turned_away.append(event)
    return let_through, turned_away


def _known(jobs: list[Job], files: RobotsFiles) -> dict[str, Known]:
    sites = {origin_of(job.url): job.site_id for job in jobs if job.obeys_robots}
    try:
        return files.known(sites, _askers(jobs)) if sites else {}
    except Error:  # the jobs are claimed and must not be dropped: they wait
        log.exception("robots_not_looked_up")
        return {}


def _askers(jobs: list[Job]) -> dict[str, str]:
    """Return the correlation id of the first job of each origin, for which its robots.txt is asked for."""
    return {origin_of(job.url): job.correlation_id for job in reversed(jobs)}


def _timed_refusal(job: Job, known: dict[str, Known], spent_s: dict[str, float]) -> Event | None:
    """Return what `_refusal` says; or, once the origin's rules have taken too long, that the job comes again."""
    origin = origin_of(job.url)
    if spent_s[origin] > APPLY_FOR:
        return Snoozed(job=job, reason=f"waits, as {origin}{PATH} takes long to apply")
    began_at = time.thread_time()
    event = _refusal(job, known.get(origin))
    spent_s[origin] += time.thread_time() - began_at
    return event


def _refusal(job: Job, known: Known | None) -> Event | None:
    """Return the event of a job that its robots.txt does not let through now; None where it does."""
    origin = origin_of(job.url)
    if known is None:
        return Snoozed(job=job, delay_s=WAIT, reason=f"waits for {origin}{PATH}")
    if known.state == RobotsState.FORBIDDEN:
        return Failure(job=job, error=known.error, permanent=True)
    if known.state == RobotsState.UNREACHABLE:
        error = f"robots.txt of {origin} cannot be read: {known.error}"
        return Failure(job=job, error=error, not_before_s=max(0.0, known.expires_at - clock.now()))
    try:
        is_allowed = known.rules is None or known.rules.allows(job.url)
    except Exception as error:  # a third-party parser's: the job must not be dropped
        log.exception("robots_not_applied", **job.named)
        return Failure(job=job, error=f"robots.txt of {origin} cannot be applied: {type(error).__name__}")
    return None if is_allowed else Disallowed(job=job, error=f"robots.txt of {origin} disallows it")
