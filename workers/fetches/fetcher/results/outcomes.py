"""Outcomes: what becomes of a fetch after an attempt, decided from the event in which the attempt ended. Pure.

The history recognises classes of failures by the errors that are written here (weir_history_failure_reason).
"""

import json
from dataclasses import replace
from functools import partial
from math import inf

from weir.ratelimit.models import ALWAYS_REFUSING
from weir.workers.backoff import LONGEST_S, backoff_s
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.bodies.validators import echo
from weir.workers.fetches.fetcher.refusals.asked import asks_to_rest, redirect_wait_s
from weir.workers.fetches.fetcher.results import receipts
from weir.workers.fetches.fetcher.results.contents import ALL_THERE, UNASKED_PART, content_of, is_unasked_part
from weir.workers.fetches.fetcher.results.decoding import Decoded
from weir.workers.fetches.fetcher.results.redirects import REDIRECTS, locations_of, redirected, was_masked
from weir.workers.fetches.jobs import Answer, Disallowed, Event, Failure, FetchOutcome, Flaw, Job, Snoozed
from weir.workers.fetches.methods import SAFE
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.once.settling import NOT_ACTED_ON

NOT_MODIFIED = 304
CONFLICT = 409  # also the answer to an Idempotency-Key whose first request still goes on
WANTED = range(200, 300)  # statuses whose body is what was asked for
SERVER_ERROR = 500
UNCOUNTED_LOSSES = 10  # losses of a fetch that was not in hand; further ones count as attempts, so that it ends
UNCOUNTED_EXPLAINED = 100  # the same, if the fetcher had another fetch in hand, perhaps by chance
_JSON = json.JSONEncoder(ensure_ascii=False)


def judge(
    event: Event,
    *,
    max_body: int,
    chance: float,
    allowed: Allowed | None = None,
    longest_wait_s: float = inf,
    keep: bool = False,
    budget_s: float | None = None,
    stored_from: int | None = None,
    found: Decoded | None = None,
) -> FetchOutcome:
    """Decide what becomes of a fetch.

    `chance` in [0, 1) is the jitter of a retry. Redirects are followed only to places that are `allowed`, and after
    `longest_wait_s` seconds at most. The status comes before the body: a flaw of the body matters only if the body is
    what was asked for. With `keep`, the part of a flawed body that came is stored (WEIR_FETCH_KEEP_INCOMPLETE). Raises
    OverBudget and ForStorage, as `content_of` does, unless what it would return was `found` already.
    """
    job = event.job
    of_job = partial(
        FetchOutcome,
        fetch_id=job.fetch_id,
        slot_id=job.slot_id,
        state=FetchState.QUEUED,
        correlation_id=job.correlation_id,
    )
    if isinstance(event, (Snoozed, Disallowed)):
        return _not_requested(of_job(attempted=False), event)
    if isinstance(event, Failure):
        return _unanswered(of_job(), event, chance)
    refuses = _refuses(event)
    outcome = of_job(
        lateness_ms=event.lateness_ms,
        elapsed_ms=event.elapsed_ms,
        status_code=event.status_code,
        headers=_as_json(event.headers),
        ends_silence=job.is_silent and not refuses,
    )
    if job.endpoint_id is not None:
        return receipts.answered(outcome, job, chance)
    if error := _why_again(event, refuses=refuses):
        return _again(replace(outcome, error=error), job.attempts, job.max_attempts, chance)
    if event.status_code in REDIRECTS and job.max_redirects and (locations := locations_of(event.headers)):
        return redirected(outcome, job, locations, allowed, wait_s=redirect_wait_s(event.headers, longest_wait_s))
    if event.status_code == NOT_MODIFIED and job.validators:
        outcome = replace(outcome, unchanged_from=job.validators.fetch_id)
    keep = (keep or job.effect is not None) and not job.is_robots
    found = found or content_of(event, max_body, keep=keep, budget_s=budget_s, stored_from=stored_from)
    return _with_content(found, outcome, event, chance, keep=keep)


def lost(
    *,
    fetch_id: int,
    slot_id: int,
    was_running: bool,
    attempts: int,
    max_attempts: int,
    losses: int,
    in_hand: bool,
    is_explained: bool,
    chance: float,
) -> FetchOutcome:
    """Decide what becomes of a fetch whose lease ran out, and that was lost with fetchers `losses` times before.

    The loss counts as an attempt if the fetcher had this fetch in hand, because the fetcher may have died of it; or if
    the fetch was lost too often. The limit is ten times as high if another fetch that the fetcher had in hand explains
    the loss.
    """
    outcome = FetchOutcome(fetch_id=fetch_id, slot_id=slot_id, state=FetchState.QUEUED, is_lost=True)
    if not was_running:
        return replace(outcome, attempted=False, slot_used=False)
    error = "its fetcher died, or could not store the result, before the lease ran out"
    outcome = replace(outcome, error=error)
    if in_hand or losses >= (UNCOUNTED_EXPLAINED if is_explained else UNCOUNTED_LOSSES):
        return _again(outcome, attempts, max_attempts, chance)
    return replace(outcome, attempted=False, delay_s=backoff_s(losses + 1, chance))


def unread(job: Job, chance: float) -> FetchOutcome:
    """Decide what becomes of a fetch whose answer waited in vain to be read alone. No attempt is counted.

    Many such fetches go back together, more than can be read alone. Their retries are spread over some minutes, and
    other fetches come first.
    """
    return FetchOutcome(
        fetch_id=job.fetch_id,
        slot_id=job.slot_id,
        state=FetchState.QUEUED,
        attempted=False,
        delay_s=LONGEST_S * (1 - chance),
        error="its answer waited too long for its turn to be read alone, as two fetchers had died while they held it",
        correlation_id=job.correlation_id,
    )


def unstored(job: Job, error: str, chance: float) -> FetchOutcome:
    """Decide what becomes of a fetch whose body no storage, or disk, has taken: it is tried again, or fails."""
    outcome = FetchOutcome(
        fetch_id=job.fetch_id,
        slot_id=job.slot_id,
        state=FetchState.FAILED,
        error=f"unexpected: the storage did not take the body: {error}",
        correlation_id=job.correlation_id,
    )
    return _again(outcome, job.attempts, job.max_attempts, chance)


def unjudged(job: Job, error: Exception, chance: float) -> FetchOutcome:
    """Decide what becomes of a fetch whose event could not be judged because of an unexpected error: it fails.

    If no memory was left, the fetch is tried again, because other answers may have taken the memory.
    """
    outcome = FetchOutcome(
        fetch_id=job.fetch_id,
        slot_id=job.slot_id,
        state=FetchState.FAILED,
        error=f"the answer could not be judged: {type(error).__name__}",
        correlation_id=job.correlation_id,
    )
    is_short = isinstance(error, MemoryError)
    return _again(outcome, job.attempts, job.max_attempts, chance) if is_short else outcome


def _with_content(
    content: Decoded, outcome: FetchOutcome, answer: Answer, chance: float, *, keep: bool
) -> FetchOutcome:
    """Return the outcome with its content. A flaw changes how the fetch ends only if the body is what was asked for."""
    if answer.status_code not in WANTED or content.flaw in ALL_THERE or answer.job.effect is not None:
        # If it is not well, no validators are kept: the next fetch asks for the whole body.
        is_well = content.flaw is Flaw.NONE and answer.job.method == "GET"
        return replace(
            outcome,
            state=FetchState.DONE,
            content=None if answer.job.method == "HEAD" else content.content,
            incomplete=content.reason or (UNASKED_PART if is_unasked_part(answer) else ""),
            etag=_validator(answer.headers, b"etag") if is_well else "",
            last_modified=_validator(answer.headers, b"last-modified") if is_well else "",
        )
    outcome = replace(
        outcome, state=FetchState.FAILED, error=content.reason, content=content.content, incomplete=content.reason
    )
    if content.flaw is Flaw.CUT:
        outcome = _again(outcome, answer.job.attempts, answer.job.max_attempts, chance)
    return outcome if keep and outcome.state == FetchState.FAILED else replace(outcome, content=None, incomplete="")


def _unanswered(outcome: FetchOutcome, event: Failure, chance: float) -> FetchOutcome:
    job = event.job
    outcome = replace(
        outcome,
        lateness_ms=event.lateness_ms,
        elapsed_ms=event.elapsed_ms,
        slot_used=event.slot_used or event.lateness_ms is not None,
        error=event.error,
    )
    if job.endpoint_id is not None:
        return receipts.again(outcome, job, chance, event.not_before_s)
    if not event.permanent:
        return _again(outcome, job.attempts, job.max_attempts, chance, event.not_before_s)
    return replace(outcome, state=FetchState.FAILED, is_forbidden=event.is_forbidden and not job.redirects)


def _not_requested(outcome: FetchOutcome, event: Snoozed | Disallowed) -> FetchOutcome:
    if isinstance(event, Disallowed):
        return replace(outcome, slot_used=False, state=FetchState.FAILED, error=event.error)
    for_token = event.awaited_token is not None
    return replace(
        outcome,
        slot_used=event.slot_used,
        lateness_ms=event.lateness_ms,
        delay_s=event.delay_s or event.not_before_s,
        waits_for_robots=event.delay_s > 0 and not for_token,
        awaited_token=event.awaited_token,
        error=event.reason,
    )


def _refuses(answer: Answer) -> bool:
    asked = asks_to_rest(answer.status_code, answer.headers, answer.job.refusing)
    return asked is not None and asked.is_refusal


def _why_again(answer: Answer, *, refuses: bool) -> str:
    """Return why the answer may be different later: it is a 5xx, or a refusal (429 and more); otherwise empty.

    If the request is made once, the answer must say that nobody has acted on it. A 409 may be different later, too, if
    the site may have got the request before; but the last one is the answer.
    refusals/asked.py says what is a refusal. The time for which the site wants to be left alone does not become the
    delay of this fetch.
    """
    said, job = f"the site answered {answer.status_code}", answer.job
    if job.effect is not None:
        return said if answer.status_code in NOT_ACTED_ON else ""
    if answer.status_code == CONFLICT and job.was_sent and job.method not in SAFE and not job.is_last:
        return f"{said}: the request may still go on that it got before"
    if answer.status_code < SERVER_ERROR:
        return said if refuses else ""
    says_all = answer.status_code in ALWAYS_REFUSING or not refuses
    return said if says_all else f"{said}, which refuses more requests"


def _again(
    outcome: FetchOutcome, attempts: int, max_attempts: int, chance: float, not_before_s: float = 0.0
) -> FetchOutcome:
    if attempts + 1 < max_attempts:
        return replace(outcome, state=FetchState.QUEUED, delay_s=not_before_s + backoff_s(attempts + 1, chance))
    return replace(
        outcome, state=FetchState.FAILED, error=f"{outcome.error} (attempt {attempts + 1} of {max_attempts})"
    )


def _validator(headers: tuple[tuple[bytes, bytes], ...], name: bytes) -> str:
    """Return the value of a header if it can be sent back byte by byte as it came; otherwise an empty text."""
    for key, value in headers:
        if key.lower() == name:
            text = value.decode("latin-1")
            return text if echo(text) and not was_masked(text) else ""
    return ""


def _as_json(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Return the headers as they are stored: in UTF-8, because an escape of a byte beyond ASCII takes six bytes."""
    return _JSON.encode([[_text(name), _text(value)] for name, value in headers])


def _text(raw: bytes) -> str:
    """Decode a header as RFC 9110 says: bytes beyond ASCII are opaque, and Latin-1 keeps each of them."""
    return raw.decode("latin-1").replace("\0", "")
