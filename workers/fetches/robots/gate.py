"""The gate between claiming and requesting: a job that the robots.txt of its origin disallows is not requested.

1. The robots.txt files of the origins of all jobs are looked up, and asked for if they are not known (files.py).
2. The rules are applied, unless that takes long (trials.py).
3. Each job is let through, or turned away with the event in which it ends: it waits for its robots.txt, or for its
   rules to be applied, it is disallowed, or it fails because its robots.txt cannot be read, or applied.

For the claimer's thread: the gate waits for the database, and applies rules.
"""

from collections.abc import Iterable

from django.db import Error

from weir.logs.loggers import get_logger
from weir.ratelimit import clock
from weir.workers.fetches.jobs import Disallowed, Event, Failure, Job, Snoozed
from weir.workers.fetches.models import RobotsState
from weir.workers.fetches.robots.files import Known, RobotsFiles
from weir.workers.fetches.robots.rules import PATH, Rules, origin_of
from weir.workers.fetches.robots.trials import TakesTooLong, Trial, Trials

log = get_logger(__name__)

# Seconds after which a fetch that waits for its robots.txt is due again; usually it is woken earlier.
WAIT = 1.0


def admit(jobs: Iterable[Job], files: RobotsFiles) -> tuple[list[Job], list[Event]]:
    """Return the jobs that may be requested, and the events of the others; both in the given order, none is dropped."""
    jobs = list(jobs)
    known = _known(jobs, files)
    trials = _trials(jobs, known, files.trials)
    let_through: list[Job] = []
    turned_away: list[Event] = []
    for job in jobs:
        event = _turned_away(job, known.get(origin_of(job.url)), trials.get(job.fetch_id)) if job.obeys_robots else None
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
    """Return, by origin, the correlation id of the origin's first job: its robots.txt is asked for with this id."""
    return {origin_of(job.url): job.correlation_id for job in reversed(jobs)}


def _trials(jobs: list[Job], known: dict[str, Known], trials: Trials) -> dict[int, Trial]:
    """Work on the trials of the jobs whose origin has rules, short rules first; returns the trials by fetch."""
    ruled: list[tuple[Job, Rules]] = []
    for job in jobs:
        file = known.get(origin_of(job.url)) if job.obeys_robots else None
        if file is not None and file.rules is not None:
            ruled.append((job, file.rules))
    ruled.sort(key=lambda each: each[1].size)
    begun = {job.fetch_id: trials.begin(job.url, rules) for job, rules in ruled}
    trials.go_on(begun.values())
    return begun


def _turned_away(job: Job, known: Known | None, trial: Trial | None) -> Event | None:
    """Return the event of a job that its robots.txt does not let through now; None if it does."""
    origin = origin_of(job.url)
    if known is None:
        return Snoozed(job=job, delay_s=WAIT, reason=f"waits for {origin}{PATH}")
    if known.state == RobotsState.FORBIDDEN:
        return Failure(job=job, error=known.error, permanent=True)
    if known.state == RobotsState.UNREACHABLE:
        error = f"robots.txt of {origin} cannot be read: {known.error}"
        return Failure(job=job, error=error, not_before_s=max(0.0, known.expires_at - clock.now()))
    return None if trial is None or trial.is_allowed else _turned_away_by_rules(job, origin, trial)


def _turned_away_by_rules(job: Job, origin: str, trial: Trial) -> Event:
    if isinstance(trial.error, TakesTooLong):
        return Failure(job=job, error=f"robots.txt of {origin} takes too long to apply to this URL", permanent=True)
    if trial.error is not None:
        log.error("robots_not_applied", **job.named, exc_info=trial.error)
        return Failure(job=job, error=f"robots.txt of {origin} cannot be applied: {type(trial.error).__name__}")
    if trial.is_allowed is None:
        return Snoozed(job=job, reason=f"waits, as {origin}{PATH} takes long to apply")
    return Disallowed(job=job, error=f"robots.txt of {origin} disallows it")
