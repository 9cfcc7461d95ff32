"""Outcomes: what becomes of a fetch after an attempt, decided from the event in which the attempt ended. Pure."""

import json
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import urljoin

from workers.backoff import backoff_s
from workers.fetches.addresses import Allowed
from workers.fetches.fetcher.results.decoding import BodyRefused, decoded
from workers.fetches.jobs import Answer, Disallowed, Event, Failure, Job, Outcome, Snoozed
from workers.fetches.models import State
from workers.fetches.robots import rules
from workers.fetches.targets import InvalidTarget, parse_target

MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOT_MODIFIED = 304
SERVER_ERROR = 500


def judge(event: Event, *, max_body: int, chance: float, allowed: Allowed | None = None) -> Outcome:
    """Decide what becomes of a fetch. `chance` in [0, 1) is the jitter of a retry; redirects lead where `allowed`."""
    job = event.job
    outcome = Outcome(fetch_id=job.fetch_id, slot_id=job.slot_id, state=State.QUEUED, correlation_id=job.correlation_id)
    if isinstance(event, (Snoozed, Disallowed)):
        return _not_requested(replace(outcome, attempted=False), event)
    outcome = replace(outcome, lateness_ms=event.lateness_ms, elapsed_ms=event.elapsed_ms)
    if isinstance(event, Failure):
        outcome = replace(outcome, slot_used=event.slot_used or event.lateness_ms is not None, error=event.error)
        return (
            replace(outcome, state=State.FAILED, is_forbidden=event.is_forbidden and not job.redirects)
            if event.permanent
            else _again(outcome, job.attempts, job.max_attempts, chance, event.not_before_s)
        )
    outcome = replace(outcome, status_code=event.status_code, headers=_as_json(event.headers))
    if _is_tried_again(event.status_code):
        error = f"the site answered {event.status_code}"
        return _again(replace(outcome, error=error), job.attempts, job.max_attempts, chance)
    if event.status_code in REDIRECTS and (location := _location(event.headers)):
        return _redirected(outcome, job, location, allowed)
    if event.status_code == NOT_MODIFIED and job.validators:
        outcome = replace(outcome, unchanged_from=job.validators.fetch_id)
    try:
        content = _content(event, max_body)
    except BodyRefused as error:
        return replace(outcome, state=State.FAILED, error=str(error))
    return replace(
        outcome,
        state=State.DONE,
        etag=_header(event.headers, b"etag"),
        last_modified=_header(event.headers, b"last-modified"),
        content=content,
    )


def lost(*, fetch_id: int, slot_id: int, was_running: bool, attempts: int, max_attempts: int, chance: float) -> Outcome:
    """Decide what becomes of a fetch whose lease ran out. Only one that a fetcher had claimed used up an attempt."""
    outcome = Outcome(fetch_id=fetch_id, slot_id=slot_id, state=State.QUEUED, is_lost=True)
    if not was_running:
        return replace(outcome, attempted=False, slot_used=False)
    error = "its fetcher died, or could not store the result, before the lease ran out"
    return _again(replace(outcome, error=error), attempts, max_attempts, chance)


def _content(answer: Answer, max_body: int) -> bytes:
    encoding = _header(answer.headers, b"content-encoding")
    if not answer.job.is_robots:
        return decoded(answer.body, encoding, max_body)
    if answer.status_code in rules.CLIENT_ERRORS:
        return b""  # there is no robots.txt, and what the page says about that is not read
    return decoded(answer.body, encoding, rules.MAX_BYTES, cut=True)


def _not_requested(outcome: Outcome, event: Snoozed | Disallowed) -> Outcome:
    if isinstance(event, Disallowed):
        return replace(outcome, slot_used=False, state=State.FAILED, error=event.error)
    return replace(outcome, slot_used=event.slot_used, delay_s=event.delay_s, error=event.reason)


def _is_tried_again(status_code: int) -> bool:
    """Tell whether the answer may be another one later: 429, and every 5xx, 503 among them.

    How long the site wants to be left alone holds for the site (http/retry_after.py), not for this fetch.
    """
    return status_code == HTTPStatus.TOO_MANY_REQUESTS or status_code >= SERVER_ERROR


def _again(outcome: Outcome, attempts: int, max_attempts: int, chance: float, not_before_s: float = 0.0) -> Outcome:
    if attempts + 1 < max_attempts:
        return replace(outcome, state=State.QUEUED, delay_s=not_before_s + backoff_s(attempts + 1, chance))
    return replace(outcome, state=State.FAILED, error=f"{outcome.error} (attempt {attempts + 1} of {max_attempts})")


def _redirected(outcome: Outcome, job: Job, location: str, allowed: Allowed | None) -> Outcome:
    if job.redirects >= MAX_REDIRECTS:
        said = f"more than {MAX_REDIRECTS} redirects"
        return replace(outcome, state=State.FAILED, error=f"{said}, the last to {location}", log_error=said)
    try:
        target = parse_target(urljoin(job.url, location), allowed)
    except ValueError as error:  # InvalidTarget, and what urljoin cannot split
        said = f"redirected to what is refused: {_without_url(error)}"
        return replace(outcome, state=State.FAILED, error=f"redirected to {location!r}: {error}", log_error=said)
    return replace(outcome, attempted=False, hop_url=target.url, hop_host=target.host)


def _without_url(error: ValueError) -> str:
    """Return the reason of a refusal as a log may hold it: what comes after a colon may quote the URL."""
    return str(error).partition(": ")[0] if isinstance(error, InvalidTarget) else "not a URL"


def _header(headers: tuple[tuple[bytes, bytes], ...], name: bytes) -> str:
    return next((_text(value) for key, value in headers if key.lower() == name), "")


def _location(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    """Return the answer's Location. Browsers and sites take bytes beyond ASCII in it for UTF-8."""
    raw = _header(headers, b"location").encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _as_json(headers: tuple[tuple[bytes, bytes], ...]) -> str:
    return json.dumps([[_text(name), _text(value)] for name, value in headers])


def _text(raw: bytes) -> str:
    """Decode a header as RFC 9110 has it: bytes beyond ASCII are opaque, and Latin-1 keeps every one of them."""
    return raw.decode("latin-1").replace("\0", "")
