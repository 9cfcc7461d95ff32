"""Token outcomes: what becomes of requests for access tokens, and of requests that were refused with one. Pure."""

import json
from dataclasses import replace
from typing import Final

from weir.workers.fetches.access_tokens import answers
from weir.workers.fetches.access_tokens.tokens import ASKED_EVERY_S
from weir.workers.fetches.fetcher.refusals.asked import redirect_wait_s
from weir.workers.fetches.held_tokens import RefusedToken, TokenReading
from weir.workers.fetches.jobs import Answer, Event, FetchOutcome
from weir.workers.fetches.models import FetchState

UNAUTHORIZED: Final = 401
REDIRECTION: Final = range(300, 400)
# Headers of a server's answer that are stored: the others may have the token, or what is as good.
KEPT: Final = frozenset({b"content-length", b"content-type", b"date", b"retry-after"})


def settled(outcome: FetchOutcome, event: Event, longest_wait_s: float) -> FetchOutcome:
    """Return the outcome with what it means for access tokens."""
    if event.job.token_client:
        return _of_request(outcome, event, longest_wait_s)
    if event.job.tokens and isinstance(event, Answer) and event.status_code == UNAUTHORIZED:
        return _refused(outcome, event)
    return outcome


def _refused(outcome: FetchOutcome, answer: Answer) -> FetchOutcome:
    """Let the fetch be requested once more, with another token, if this one was not new. No attempt is counted.

    A second 401 in a row is the answer: the site means it, or every token is this old when the fetch has its slot.
    """
    job = answer.job
    written_at = job.start_at + answer.lateness_ms / 1000
    old = {name: token for name, token in job.tokens.items() if written_at - token.obtained_at >= ASKED_EVERY_S}
    if outcome.state != FetchState.DONE or job.was_unauthorized or not old:
        return outcome
    error = f"the site answered {UNAUTHORIZED}: it is asked once more, with a new access token of {', '.join(old)}"
    return replace(
        outcome,
        state=FetchState.QUEUED,
        attempted=False,
        error=error,
        content=None,
        incomplete="",
        etag="",
        last_modified="",
        refused_tokens=tuple(RefusedToken(token.key, token.version, job.site_id) for token in old.values()),
    )


def _of_request(outcome: FetchOutcome, event: Event, longest_wait_s: float) -> FetchOutcome:
    """Return the outcome of a request for a token: what its server said is read, and not stored."""
    outcome, content = replace(outcome, content=None, incomplete="", etag="", last_modified=""), outcome.content
    if isinstance(event, Answer):
        outcome = replace(outcome, headers=_kept(event))
        if event.status_code in REDIRECTION:
            said = f"the server redirected the request ({event.status_code}), which is not followed"
            outcome = replace(outcome, state=FetchState.FAILED, error=said, hop_url=None, hop_host=None, log_error="")
    if outcome.state == FetchState.QUEUED or event.job.token_key is None:
        return outcome
    name = event.job.token_client
    error = outcome.error.replace(" (WEIR_FETCH_MAX_BODY)", "")  # the bound is LONGEST_ANSWER
    reading = TokenReading(key=event.job.token_key, client=name, error=answers.why_none(name, error))
    if outcome.state == FetchState.DONE and isinstance(event, Answer) and event.job.client:
        reading = replace(
            answers.read(event.job.client, event.status_code, content or b""),
            requested_at=event.job.start_at + event.lateness_ms / 1000,
            retry_after_s=redirect_wait_s(event.headers, longest_wait_s),
        )
    state = FetchState.FAILED if reading.error else outcome.state
    return replace(outcome, token=reading, state=state, error=reading.error)


def _kept(answer: Answer) -> str:
    kept = [(name, value) for name, value in answer.headers if name.lower() in KEPT]
    return json.dumps([[name.decode("latin-1"), value.decode("latin-1").replace("\0", "")] for name, value in kept])
