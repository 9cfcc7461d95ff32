"""The gate between claiming and requesting for jobs whose requests are made once: their effects are claimed, too.

A job whose effect cannot begin is turned away: its effect has ended, or is deleted; or it may have happened, so that
its probe is asked. For the claimer's thread: the gate waits for the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from django.db import Error

from weir.logs.loggers import get_logger
from weir.ratelimit import clock
from weir.workers.effects.models import Effect
from weir.workers.effects.names import HANDED_OVER_S, EffectState
from weir.workers.effects.performing import held
from weir.workers.effects.performing.held import HeldEffect
from weir.workers.fetches.jobs import Disallowed, Event, Failure, Job, Snoozed, longest_hold_s

AGAIN_S: Final = 10.0  # seconds after which a fetch is due again whose kind of effect is paused, or not known here
SPARE_S: Final = 60.0  # beyond the lease of the fetch, so that its own end comes first
NOT_ASKED: Final = "its site is not asked any more: it may have forgotten the Idempotency-Key"
ACTIVE: Final = frozenset({EffectState.PENDING, EffectState.CLAIMED, EffectState.BEGUN})

log = get_logger(__name__)


def admit(jobs: Sequence[Job]) -> tuple[list[Job], list[Event]]:
    """Return the jobs that may be requested, and the events of the others; both in the given order, none is dropped.

    Without a job whose request is made once, no query is made.
    """
    leases = {job.effect_id: _lease(job) for job in jobs if job.effect_id is not None}
    if not leases:
        return list(jobs), []
    found: Mapping[int, HeldEffect | Effect] | None = None
    try:
        found = held.hold(leases)
    except Error:  # the jobs are claimed and must not be dropped: they wait
        log.exception("effects_not_claimed")
    admitted: list[Job] = []
    turned_away: list[Event] = []
    for job in jobs:
        judged = job if job.effect_id is None else _judged(job, job.effect_id, found)
        (admitted if isinstance(judged, Job) else turned_away).append(judged)  # type: ignore[arg-type]
    return admitted, turned_away


def _lease(job: Job) -> timedelta:
    """Return how long the claim of the job's effect holds, and its begin: until after the lease of the fetch."""
    return timedelta(seconds=max(0.0, job.run.start_until - clock.now()) + longest_hold_s() + SPARE_S)


def _judged(job: Job, effect_id: int, all_found: Mapping[int, HeldEffect | Effect] | None) -> Job | Event:
    """Return the job with its effect, or the event in which it is turned away."""
    if all_found is None:
        return Snoozed(job=job, not_before_s=AGAIN_S, reason="its effect is not claimed: the fetcher's log says why")
    found = all_found.get(effect_id)
    if found is None:
        return Disallowed(job=job, error=f"its effect {effect_id} is deleted (WEIR_EFFECT_RETENTION)")
    if isinstance(found, HeldEffect):
        return _held(replace(job, effect=found), found)
    named = f"effect {found.pk} ({found.kind} {found.key})"
    if found.state not in ACTIVE:
        return Disallowed(job=job, error=f"its {named} is {found.state}: {found.last_reply}")
    if held.waits_for_probe(found):
        return Snoozed(job=job, not_before_s=HANDED_OVER_S, reason=f"its {named} may have happened: its probe is asked")
    return Snoozed(job=job, not_before_s=AGAIN_S, reason=f"its {named} waits: `manage.py effects show {found.pk}`")


def _held(job: Job, effect: HeldEffect) -> Job | Event:
    if effect.may_begin():
        return job
    return Failure(job=job, error=NOT_ASKED, permanent=True)
