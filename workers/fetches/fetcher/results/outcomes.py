"""Outcomes: what becomes of a fetch after an attempt, decided from the event in which the attempt ended. Pure."""

import json
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import urljoin

from workers.backoff import backoff_s
from workers.fetches.addresses import Allowed
from workers.fetches.fetcher.results.contents import ALL_THERE, content_of
from workers.fetches.fetcher.results.decoding import Decoded, Flaw
from workers.fetches.jobs import Answer, Disallowed, Event, Failure, Job, Outcome, Snoozed, echo
from workers.fetches.models import State
from workers.fetches.targets import parse_target

MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOT_MODIFIED = 304
WANTED = range(200, 300)  # statuses whose body is what was asked for
SERVER_ERROR = 500
_JSON = json.JSONEncoder(ensure_ascii=False)


def judge(
    event: Event,
    *,
    max_body: int,
    chance: float,
    allowed: Allowed | None = None,
    keep: bool = False,
    budget_s: float | None = None,
) -> Outcome:
    """Decide what becomes of a fetch. `chance` in [0, 1) is the jitter of a retry; redirects lead where `allowed`.

    The status comes before the body: what the body is matters only where it is what was asked for. With `keep`, what
    came of a flawed one is stored (WEIR_FETCH_KEEP_INCOMPLETE). Raises Costly, as `content_of` does.
    """
    job = event.job
    outcome = Outcome(fetch_id=job.fetch_id, slot_id=job.slot_id, state=State.QUEUED, correlation_id=job.correlation_id)
    if isinstance(event, (Snoozed, Disallowed)):
        return _not_requested(replace(outcome, attempted=False), event)
    if isinstance(event, Failure):
        return _unanswered(outcome, event, chance)
    outcome = replace(
        outcome,
        lateness_ms=event.lateness_ms,
        elapsed_ms=event.elapsed_ms,
        status_code=event.status_code,
        headers=_as_json(event.headers),
    )
    if error := _asks_for_another(event.status_code):
        return _again(replace(outcome, error=error), job.attempts, job.max_attempts, chance)
    if event.status_code in REDIRECTS and (location := _location(event.headers)):
        return _redirected(outcome, job, location, allowed)
    if event.status_code == NOT_MODIFIED and job.validators:
        outcome = replace(outcome, unchanged_from=job.validators.fetch_id)
    keep = keep and not job.is_robots
    return _with(content_of(event, max_body, keep=keep, budget_s=budget_s), outcome, event, chance, keep=keep)


def lost(*, fetch_id: int, slot_id: int, was_running: bool, attempts: int, max_attempts: int, chance: float) -> Outcome:
    """Decide what becomes of a fetch whose lease ran out. Only one that a fetcher had claimed used up an attempt."""
    outcome = Outcome(fetch_id=fetch_id, slot_id=slot_id, state=State.QUEUED, is_lost=True)
    if not was_running:
        return replace(outcome, attempted=False, slot_used=False)
    error = "its fetcher died, or could not store the result, before the lease ran out"
    return _again(replace(outcome, error=error), attempts, max_attempts, chance)


def _with(content: Decoded, outcome: Outcome, answer: Answer, chance: float, *, keep: bool) -> Outcome:
    """Return the outcome with its content. A flawed one ends the fetch otherwise only if it is what was asked for."""
    if answer.status_code not in WANTED or content.flaw in ALL_THERE:
        is_well = content.flaw is Flaw.NONE  # else the next fetch asks for all of it
        return replace(
            outcome,
            state=State.DONE,
            content=content.content,
            incomplete=content.reason,
            etag=_validator(answer.headers, b"etag") if is_well else "",
            last_modified=_validator(answer.headers, b"last-modified") if is_well else "",
        )
    outcome = replace(
        outcome, state=State.FAILED, error=content.reason, content=content.content, incomplete=content.reason
    )
    if content.flaw is Flaw.CUT:
        outcome = _again(outcome, answer.job.attempts, answer.job.max_attempts, chance)
    return outcome if keep and outcome.state == State.FAILED else replace(outcome, content=None, incomplete="")


def _unanswered(outcome: Outcome, event: Failure, chance: float) -> Outcome:
    job = event.job
    outcome = replace(
        outcome,
        lateness_ms=event.lateness_ms,
        elapsed_ms=event.elapsed_ms,
        slot_used=event.slot_used or event.lateness_ms is not None,
        error=event.error,
    )
    if not event.permanent:
        return _again(outcome, job.attempts, job.max_attempts, chance, event.not_before_s)
    return replace(outcome, state=State.FAILED, is_forbidden=event.is_forbidden and not job.redirects)


def _not_requested(outcome: Outcome, event: Snoozed | Disallowed) -> Outcome:
    if isinstance(event, Disallowed):
        return replace(outcome, slot_used=False, state=State.FAILED, error=event.error)
    return replace(outcome, slot_used=event.slot_used, delay_s=event.delay_s, error=event.reason)


def _asks_for_another(status_code: int) -> str:
    """Return why the answer may be another one later: for 429, every 5xx, 503 among them, and what is no answer.

    How long the site wants to be left alone holds for the site (http/retry_after.py), not for this fetch.
    """
    if status_code == HTTPStatus.SWITCHING_PROTOCOLS:
        return "the site answered 101: it speaks another protocol from there on, for which nobody asked"
    if status_code < HTTPStatus.OK:
        return f"the site answered {status_code:03}, which is no status of an answer"
    if status_code == HTTPStatus.TOO_MANY_REQUESTS or status_code >= SERVER_ERROR:
        return f"the site answered {status_code}"
    return ""


def _again(outcome: Outcome, attempts: int, max_attempts: int, chance: float, not_before_s: float = 0.0) -> Outcome:
    if attempts + 1 < max_attempts:
        return replace(outcome, state=State.QUEUED, delay_s=not_before_s + backoff_s(attempts + 1, chance))
    return replace(outcome, state=State.FAILED, error=f"{outcome.error} (attempt {attempts + 1} of {max_attempts})")


def _redirected(outcome: Outcome, job: Job, location: str, allowed: Allowed | None) -> Outcome:
    if job.redirects >= MAX_REDIRECTS:
        return replace(
            outcome, state=State.FAILED, error=f"more than {MAX_REDIRECTS} redirects, the last to {location}"
        )
    try:
        target = parse_target(urljoin(job.url, location), allowed)
    except ValueError as error:  # InvalidTarget, and what urljoin cannot split
        return replace(outcome, state=State.FAILED, error=f"redirected to {location!r}: {error}")
    return replace(outcome, attempted=False, hop_url=target.url, hop_host=target.host)


def _header(headers: tuple[tuple[bytes, bytes], ...], name: bytes) -> str:
    return next((_text(value) for key, value in headers if key.lower() == name), "")


def _location(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Return the answer's Location. Browsers and sites take bytes beyond ASCII in it for UTF-8."""
    raw = _header(headers, b"location").encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _validator(headers: tuple[tuple[bytes, bytes], ...], name: bytes) -> str:
    """Return the value of a header that can be sent back byte by byte; else nothing."""
    for key, value in headers:
        if key.lower() == name:
            text = value.decode("latin-1")
            return text if echo(text) else ""
    return ""


def _as_json(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Return the headers as they are stored: in UTF-8, as an escape of each byte beyond ASCII takes six."""
    return _JSON.encode([[_text(name), _text(value)] for name, value in headers])


def _text(raw: bytes) -> str:
    """Decode a header as RFC 9110 has it: bytes beyond ASCII are opaque, and Latin-1 keeps every one of them."""
    return raw.decode("latin-1").replace("\0", "")
