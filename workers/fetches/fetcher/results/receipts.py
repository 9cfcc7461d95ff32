"""Receipts: what becomes of a webhook after an attempt. Pure.

A receiver has an event once it has answered with a status of 200 to 299. All else is tried again for about three days,
because a receiver may be mended: a redirect, which is not followed, too, and failures that are final for other fetches.
A 410 says that the receiver wants no more (https://www.standardwebhooks.com/): the room above pauses its endpoint, and
the webhook waits with the others. No body is stored.
"""

from dataclasses import replace
from typing import Final

from weir.workers.backoff import backoff_s
from weir.workers.fetches.jobs import FetchOutcome, Job
from weir.workers.fetches.models import FetchState

RECEIVED: Final = range(200, 300)
LONGEST_WAIT_S: Final = 3_600.0  # between two attempts


def answered(outcome: FetchOutcome, job: Job, chance: float) -> FetchOutcome:
    """Return what becomes of a webhook that was answered with the outcome's status."""
    if outcome.status_code in RECEIVED:
        return replace(outcome, state=FetchState.DONE)
    return again(replace(outcome, error=f"the site answered {outcome.status_code}"), job, chance)


def again(outcome: FetchOutcome, job: Job, chance: float, not_before_s: float = 0.0) -> FetchOutcome:
    """Let the webhook be sent again, in an hour at most, unless no attempt is left."""
    attempt = job.attempts + 1
    if attempt < job.max_attempts:
        return replace(outcome, delay_s=not_before_s + backoff_s(attempt, chance, LONGEST_WAIT_S))
    error = f"{outcome.error} (attempt {attempt} of {job.max_attempts})"
    return replace(outcome, state=FetchState.FAILED, error=error)
