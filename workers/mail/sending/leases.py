"""Writes what a mailer does with the e-mails that it holds. Each function commits by itself.

From the claim on, only the worker that has the claim's token writes the e-mail's row:

1. `claim`: `pending` -> `claimed`, for a lease of WEIR_MAIL_LEASE.
2. `begin`, right before the content is transmitted: `claimed` -> `sending`, if the claim still holds.
3. `record`: the outcome, if the claim still holds.

If a worker dies, its claimed e-mails are taken back when their lease is over: it has not begun them. The e-mail that it
was sending becomes `unknown` after WEIR_MAIL_UNKNOWN_AFTER, and is not sent again unless an operator says so.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db.models.functions import Now

from weir.conf import settings
from weir.conf.texts import kind_routes
from weir.logs.loggers import get_logger
from weir.postgres import own_commits, sessions
from weir.postgres.statements import Statement
from weir.postgres.texts import storable
from weir.workers import claims
from weir.workers.mail import addresses, suppression
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending.outcomes import EmailOutcome
from weir.workers.tracing import correlation

SWEPT_AT_ONCE = 1_000
FORGOTTEN_AT_ONCE = 500  # e-mails to a forgotten recipient, in one statement
LONGEST_REPLY = 1_000  # characters of a reply that are kept
LONGEST_ID: int = Email._meta.get_field("provider_id").max_length or 0  # noqa: SLF001  documented, in spite of its name
WRITE_WITHIN_S = 60.0  # how long an outcome is kept in memory while PostgreSQL is away
TRY_EVERY_S = 0.5
NOTHING_SAID = "No reply, and no reason, was given."  # for an app's own transport or kind that says nothing
NO_WORD = "The worker that began to send it did not say what became of it: it died, or lost the database."
ALL_KINDS: Mapping[str, bool] = {kind_routes.OTHERS: True}
Result = TypeVar("Result")

log = get_logger(__name__)


class EndedRow(NamedTuple):
    """One row of `expire`: an e-mail that has ended, `expired` or `unknown`."""

    id: int
    state: str
    phase: str
    last_reply: str
    claimed_by: str
    correlation_id: str
    recipient: str


BEGIN = Statement("begin", commits=True, prepare=True)
CLAIM = Statement("claim", returns=int, commits=True)
EXPIRE = Statement("expire", row=EndedRow, commits=True)
NOTE_ACCEPTANCE = Statement("note_acceptance", commits=True)
PUT_OFF = Statement("put_off", returns=int, commits=True)
RECORD = Statement("record", commits=True, prepare=True)


class ClaimLost(Exception):
    """This worker does not hold the e-mail any more; `outcome` is its outcome, if this worker has written one."""

    def __init__(self, outcome: EmailOutcome | None = None) -> None:
        super().__init__()
        self.outcome = outcome


def claim(limit: int, token: UUID, kinds: Mapping[str, bool] = ALL_KINDS) -> list[Email]:
    """Claim up to `limit` due e-mails for a lease; return them in the order in which they are to be sent.

    `kinds` maps patterns of kinds, as in WEIR_MAIL_ROUTES, to whether this claim takes such kinds.
    Each claim needs a new token: with the same token, a late write for one claim would count for the other. Raises
    RuntimeError inside a transaction, because a claim must be committed.
    """
    if own_commits.is_in_transaction():
        raise RuntimeError("A claim must be committed before anything is sent: call it outside of transactions.")
    parameters = {
        "limit": limit,
        "token": token,
        "claimed_by": f"{socket.gethostname()}:{os.getpid()}",
        "lease": _lease(),
        **taking(kinds),
    }
    claimed = CLAIM(**parameters)
    emails = Email.objects.filter(pk__in=claimed, claim_token=token) if claimed else []
    return sorted(emails, key=lambda email: (-email.priority, email.next_attempt_at, email.pk))


def taking(kinds: Mapping[str, bool]) -> dict[str, object]:
    """Return the parameters of a claim that say which kinds it takes."""
    return {
        "starts": [kind_routes.start(pattern) for pattern in kinds],
        "are_open": [kind_routes.is_open(pattern) for pattern in kinds],
        "are_ours": list(kinds.values()),
    }


def renew(tokens: Collection[UUID]) -> None:
    """Renew the leases of all e-mails that were claimed with these tokens, and have not been begun."""
    Email.objects.filter(claim_token__in=tokens, state=EmailState.CLAIMED).update(claimed_until=Now() + _lease())


def asked_for(key_lifetime: timedelta | None) -> timedelta | None:
    """Return how long after `begin` a relay that remembers keys for `key_lifetime` may be asked again; None: never.

    A question that reaches the relay after it has forgotten the key would send a second e-mail. So no question begins
    that may still be in flight at that time.
    """
    if key_lifetime is None:
        return None
    asked = key_lifetime - timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)
    return asked if asked > timedelta() else None


def begin(email: Email, relay: str, key_lifetime: timedelta | None) -> None:
    """Record that the e-mail's transmission to this relay begins now: from here on the e-mail is never taken back.

    Raises ClaimLost if the claim is lost, or the e-mail has expired.
    """
    if not BEGIN(email=email.pk, token=email.claim_token, relay=relay, asked_for=asked_for(key_lifetime)):
        refuse_expired(email)
        raise ClaimLost


def refuse_expired(email: Email) -> None:
    """If the e-mail has expired by the database's clock, end it, and raise ClaimLost with the outcome."""
    if email.expires_at is not None and Email.objects.filter(pk=email.pk, expires_at__lte=Now()).exists():
        end_expired(0.0)
        state = EmailState.EXPIRED if email.ask_until is None else EmailState.UNKNOWN
        raise ClaimLost(EmailOutcome(state=state, last_reply=email.last_reply, attempts=0))


def end_expired(within_s: float) -> int:
    """End e-mails that have expired, even if they wait for a person or a relay; return how many.

    Works in short batches; after `within_s` seconds the rest is left to the next call. May be killed anywhere.
    """
    ended, batch, give_up_at = 0, SWEPT_AT_ONCE, time.monotonic() + within_s
    while batch == SWEPT_AT_ONCE and (not ended or time.monotonic() < give_up_at):
        batch = _end_expired()
        ended += batch
    return ended


def _end_expired() -> int:
    ended = EXPIRE(batch=SWEPT_AT_ONCE)
    for row in ended:
        if row.state == EmailState.UNKNOWN:
            with correlation.bound(row.correlation_id):
                log.error("email_unknown", email=row.id, phase=row.phase, reply=row.last_reply, worker=row.claimed_by)
    if expired := sum(row.state == EmailState.EXPIRED for row in ended):
        log.warning("emails_expired", emails=expired)
    for address in suppression.forgotten(
        row.recipient for row in ended
    ):  # queued before its recipient was forgotten, committed afterwards
        suppression.forget_ended(address, FORGOTTEN_AT_ONCE)
    return len(ended)


def may_be_asked_about(email: Email) -> bool:
    """Return whether the relay still knows the e-mail's idempotency key, by the database's clock, not this host's."""
    return Email.objects.filter(pk=email.pk, ask_until__gt=Now()).exists()


def record(email: Email, outcome: EmailOutcome) -> bool:
    """Write the outcome of an attempt. If the claim is lost, log the outcome, which does not count; return False.

    The outcome is written even if the e-mail has become `unknown` meanwhile. An acceptance is written even if an
    operator has resent the e-mail, or given it up. While PostgreSQL is away, this tries again for a minute, because
    only this worker knows the outcome.
    """
    about = {"email": email.pk, "phase": outcome.phase, "reply": outcome.last_reply}
    if not _patiently(lambda: _write(email, outcome)):
        log.warning("outcome_of_a_lost_claim", **about, state=outcome.state)
        return False
    if outcome.state == EmailState.UNKNOWN:
        log.error("email_unknown", **about)
    elif outcome.state == EmailState.FAILED:
        log.warning("email_failed", **about)
    return True


def give_back(tokens: Collection[UUID], only: Collection[int] | None = None) -> int:
    """Make the e-mails that were claimed with these tokens, and not begun, pending again; return how many.

    `only` limits this to e-mails with these ids.
    """
    claimed = Email.objects.filter(claim_token__in=tokens, state=EmailState.CLAIMED)
    if only is not None:
        claimed = claimed.filter(pk__in=only)
    return _patiently(lambda: claimed.update(state=EmailState.PENDING, claim_token=None, claimed_until=None))


def put_off(waits_s: Mapping[int, float], token: UUID) -> int:
    """Make the e-mails in `waits_s` pending again, which were claimed with this token, and not tried; return how many.

    `waits_s` says, by id, in how many seconds each e-mail is due again. Up to a fifth is added, so that they spread.
    """
    parameters = {"token": token, "emails": list(waits_s), "seconds": list(waits_s.values())}
    return _patiently(lambda: len(PUT_OFF(**parameters)))


def take_back_abandoned() -> int:
    """Make the e-mails that dead workers had claimed, and not begun, pending again; return how many."""
    return len(
        claims.claim(
            Email.objects.abandoned(),
            SWEPT_AT_ONCE,
            state=EmailState.PENDING,
            claim_token=None,
            claimed_until=None,
        )
    )


def end_silent() -> int:
    """Make the e-mails that dead workers had begun to send unknown; return how many.

    If the relay still knows an e-mail's idempotency key, the e-mail is pending instead, and the relay is asked again.
    """
    after = timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)
    unknown: list[int] = []

    def end(email: Email) -> None:
        if _end(email):
            unknown.append(email.pk)

    claims.each_locked(Email.objects.silent(after), end, SWEPT_AT_ONCE)
    return len(unknown)


def _end(email: Email) -> bool:
    """Record, in the caller's transaction, that the worker did not report; return whether the e-mail is unknown now."""
    if email.earlier_reply:  # an earlier attempt was accepted, which outweighs this attempt
        email.state, email.sent_at, email.last_reply = EmailState.SENT, Now(), email.earlier_reply
    elif may_be_asked_about(email):
        email.state, email.next_attempt_at, email.last_reply = EmailState.PENDING, Now(), NO_WORD
    else:
        email.state, email.last_reply = EmailState.UNKNOWN, NO_WORD
        with correlation.bound(email.correlation_id):
            log.error("email_unknown", email=email.pk, phase=email.phase, reply=NO_WORD, worker=email.claimed_by)
    is_unknown = email.state == EmailState.UNKNOWN
    if not is_unknown:
        email.claim_token = email.sending_since = None
    email.ended_at = None if email.state == EmailState.PENDING else Now()
    email.save(
        update_fields=["state", "last_reply", "claim_token", "sending_since", "sent_at", "ended_at", "next_attempt_at"]
    )
    return is_unknown


def _lease() -> timedelta:
    return timedelta(seconds=settings.WEIR_MAIL_LEASE)


def _write(email: Email, outcome: EmailOutcome) -> bool:
    parameters = {
        "email": email.pk,
        "token": email.claim_token,
        "state": outcome.state.value,
        "phase": outcome.phase.value if outcome.phase else "",
        "last_reply": storable(_without_address(outcome.last_reply, email), LONGEST_REPLY) or NOTHING_SAID,
        "attempts": outcome.attempts,
        "retry_in": timedelta(seconds=outcome.retry_in_s),
        "provider_id": storable(outcome.provider_id, LONGEST_ID),
        "settles": outcome.is_settled,
    }
    if RECORD(**parameters):
        return True
    return outcome.state == EmailState.SENT and bool(NOTE_ACCEPTANCE(**parameters))


def _without_address(reply: str, email: Email) -> str:
    """Return the reply without the recipient's address: replies are kept for longer than addresses."""
    return addresses.redacted(reply, email.recipient) if "@" in email.recipient else reply


def _patiently(write: Callable[[], Result]) -> Result:
    """Call `write`. While PostgreSQL is away, try again for a minute."""
    give_up_at = time.monotonic() + WRITE_WITHIN_S
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError, InternalError) as error:  # InternalError: the server is read-only
            sessions.leave(connection)
            if time.monotonic() > give_up_at:
                raise
            log.warning("emails_not_written", error=str(error))
            time.sleep(TRY_EVERY_S)
