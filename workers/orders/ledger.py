"""What is written about an e-mail on its way, and by whom it may be: claim, begin, record, give back; take back.

Each of these commits by itself. From the claim on, an e-mail's row is written only by who has its token:

1. `claim`: `pending` -> `claimed`, for a lease of WEIR_MAIL_LEASE.
2. `begin`, right before the content is transmitted: `claimed` -> `sending`, if the claim is still ours.
3. `record`: what came of it, if nobody else has said so.

Where a worker dies, its claimed e-mails are taken back when the lease is over: it cannot begin any more. What it was
sending becomes `unknown` after WEIR_MAIL_UNKNOWN_AFTER, and is never sent by itself again.
"""

import os
import socket
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.db.models.functions import Now

from postgres import statements
from workers import claims
from workers.orders.models import ShippedEmail, State
from workers.orders.outcomes import Outcome

SWEPT_AT_ONCE = 1_000
LONGEST_REPLY = 1_000  # characters that are kept of what was said
WRITE_WITHIN_S = 60.0  # how long what came of an e-mail is kept in memory while PostgreSQL is away
TRY_EVERY_S = 0.5
NO_WORD = "The worker that began to send it did not say what became of it: it died, or lost the database."
Result = TypeVar("Result")
_query = partial(statements.run, "workers.orders")

log = structlog.get_logger(__name__)


class ClaimLost(Exception):
    """Somebody else has taken this e-mail back."""


def claim(limit: int, token: UUID) -> list[ShippedEmail]:
    """Take up to `limit` e-mails that are due, with their orders, for a lease.

    No two claims may have the same token: what is written late for one must not be taken for the other's.
    """
    return claims.claim(
        ShippedEmail.objects.due().select_related("order"),
        limit,
        state=State.CLAIMED,
        claim_token=token,
        claimed_by=f"{socket.gethostname()}:{os.getpid()}",
        claimed_until=Now() + timedelta(seconds=settings.WEIR_MAIL_LEASE),
    )


def renew(email: ShippedEmail) -> None:
    """Begin the lease anew, where so much has passed that it may not be long enough. Raises ClaimLost."""
    mine = ShippedEmail.objects.filter(pk=email.pk, claim_token=email.claim_token, state=State.CLAIMED)
    if not mine.update(claimed_until=Now() + timedelta(seconds=settings.WEIR_MAIL_LEASE)):
        raise ClaimLost


def begin(email: ShippedEmail) -> None:
    """Note that its transmission begins now: from here on nobody takes it back. Raises ClaimLost."""
    if not _query("begin", {"email": email.pk, "token": email.claim_token}, prepare=True):
        raise ClaimLost


def record(email: ShippedEmail, outcome: Outcome) -> bool:
    """Write what came of it; False (and a log) where the claim is lost, and somebody else decides.

    Also where it has become `unknown` meanwhile, as long as no person has resolved it. While PostgreSQL is away it
    tries again for a minute: this is the only place where the outcome is known.
    """
    about = {"email": email.pk, "phase": outcome.phase, "reply": outcome.last_reply}
    if not _patiently(lambda: _write(email, outcome)):
        log.warning("outcome_of_a_lost_claim", **about, state=outcome.state)
        return False
    if outcome.state == State.UNKNOWN:
        log.error("shipped_email_unknown", **about)
    elif outcome.state == State.FAILED:
        log.warning("shipped_email_failed", **about)
    return True


def give_back(tokens: Collection[UUID], only: Collection[int] | None = None) -> int:
    """Make pending again what was claimed with these tokens and not begun, or only these of it; returns how many."""
    claimed = ShippedEmail.objects.filter(claim_token__in=tokens, state=State.CLAIMED)
    if only is not None:
        claimed = claimed.filter(pk__in=only)
    return _patiently(lambda: claimed.update(state=State.PENDING, claim_token=None, claimed_until=None))


def take_back_abandoned() -> int:
    """Make pending again what dead workers had claimed and not begun; returns how many."""
    return len(
        claims.claim(
            ShippedEmail.objects.abandoned(),
            SWEPT_AT_ONCE,
            state=State.PENDING,
            claim_token=None,
            claimed_until=None,
        )
    )


def give_up_on_silent() -> int:
    """Make unknown what dead workers had begun to send; returns how many."""
    after = timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)
    return claims.each_locked(ShippedEmail.objects.silent(after), _give_up, SWEPT_AT_ONCE)


def _give_up(email: ShippedEmail) -> None:
    email.state, email.last_reply = State.UNKNOWN, NO_WORD
    email.save(update_fields=["state", "last_reply"])
    log.error("shipped_email_unknown", email=email.pk, phase=email.phase, reply=NO_WORD, worker=email.claimed_by)


def _write(email: ShippedEmail, outcome: Outcome) -> bool:
    parameters = {
        "email": email.pk,
        "token": email.claim_token,
        "state": outcome.state.value,
        "phase": outcome.phase.value if outcome.phase else "",
        "last_reply": _storable(outcome.last_reply),
        "attempts": outcome.attempts,
        "retry_in": timedelta(seconds=outcome.retry_in_s),
    }
    return bool(_query("record", parameters, prepare=True))


def _storable(text: str) -> str:
    """Return what a server or an exception said, without what PostgreSQL cannot store, and not too much of it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()[:LONGEST_REPLY]


def _patiently(write: Callable[[], Result]) -> Result:
    """Call it again and again while PostgreSQL is away, for a minute."""
    give_up_at = time.monotonic() + WRITE_WITHIN_S
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError, InternalError) as error:  # the last one from a server that only reads
            connection.close()
            if time.monotonic() > give_up_at:
                raise
            log.warning("shipped_emails_not_written", error=str(error))
            time.sleep(TRY_EVERY_S)
