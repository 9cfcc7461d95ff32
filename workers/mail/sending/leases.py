"""Writes what a mailer does with the e-mails that it holds, through the ledger. Each function commits by itself.

1. `claim`: `pending` -> `claimed`, for a lease of WEIR_MAIL_LEASE.
2. `begin`, right before the content is transmitted: `claimed` -> `sending`, if the claim still holds.
3. `record`: the outcome, if the claim still holds.

`weir.workers.ledger.leases` says what becomes of an e-mail whose worker dies. The e-mail that it was sending becomes
`unknown` after WEIR_MAIL_UNKNOWN_AFTER, and is not sent again unless an operator says so.
"""

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction

from weir.conf import settings
from weir.workers.ledger import in_transactions, leases
from weir.workers.ledger.claiming import ALL_KINDS, ClaimLost, taking
from weir.workers.ledger.names import LedgerEvents
from weir.workers.ledger.outcomes import Outcome
from weir.workers.ledger.rows import EndedRow
from weir.workers.mail import addresses, kinds, suppression
from weir.workers.mail.models import Email
from weir.workers.mail.phases import NAMES, EmailState
from weir.workers.mail.sending import outcomes

__all__ = ["ALL_KINDS", "ClaimLost", "taking"]

FORGOTTEN_AT_ONCE = 500  # e-mails to a forgotten recipient, in one statement
NO_WORD = "The worker that began to send it did not say what became of it: it died, or lost the database."


class _Outdated(Exception):
    """Something that the draft tells is not to be told any more."""


class EmailLedger(leases.Ledger[Email]):
    """The ledger of e-mails."""

    noun = "email"
    events = LedgerEvents("email_unknown", "email_failed", "emails_expired", "emails_not_written")
    no_word = NO_WORD

    def lease(self) -> timedelta:
        return timedelta(seconds=settings.WEIR_MAIL_LEASE)

    def silent_after(self) -> timedelta:
        return timedelta(seconds=settings.WEIR_MAIL_UNKNOWN_AFTER)

    def shown(self, row: Email, reply: str) -> str:
        """Return the reply without the recipient's address: replies are kept for longer than addresses."""
        return addresses.redacted(reply, row.recipient) if "@" in row.recipient else reply

    def after_expiry(self, ended: Sequence[EndedRow]) -> None:
        """Forget e-mails that were queued before their recipient was forgotten, and committed afterwards.

        What expired e-mails of drafted kinds were to tell waits for another one.
        """
        expired = [row.id for row in ended if row.state == EmailState.EXPIRED]
        for drafted in Email.objects.filter(pk__in=expired, kind__in=kinds.drafted()):
            kinds.release(drafted.kind, [drafted.pk], is_over=True)
        if ended:
            recipients = Email.objects.filter(pk__in=[row.id for row in ended]).values_list("recipient", flat=True)
            for address in suppression.forgotten(recipients):
                suppression.forget_ended(address, FORGOTTEN_AT_ONCE)

    def _write(self, row: Email, outcome: Outcome) -> bool:
        """Write the outcome; in the same transaction, take back what an e-mail has told that was not accepted."""
        if (
            kinds.drafting(row.kind) is None
            or outcome.state in {EmailState.SENT, EmailState.UNKNOWN}
            or not outcome.is_settled
        ):
            return super()._write(row, outcome)
        with transaction.atomic(durable=True):
            if not _WITHIN.writes(row, outcome):
                return False
            if not Email.objects.filter(pk=row.pk, state=EmailState.SENT).exists():  # an earlier attempt was accepted
                kinds.release(row.kind, [row.pk], is_over=outcome.state != EmailState.PENDING)
        return True


class _WithinTransaction(EmailLedger):
    """The steps that are a part of the caller's transaction."""

    def __init__(self) -> None:
        super().__init__(Email, NAMES)
        names = NAMES._asdict()
        self._begin = in_transactions.BEGIN_WITHIN.with_names(names)
        self._record = in_transactions.RECORD_WITHIN.with_names(names)

    def writes(self, row: Email, outcome: Outcome) -> bool:
        return leases.Ledger._write(self, row, outcome)  # noqa: SLF001  of the base class

    def refuse_expired(self, row: Email) -> None:
        """Leave that to the caller, after the transaction: whatever ends an e-mail must be committed."""


_WITHIN = _WithinTransaction()
LEDGER = EmailLedger(Email, NAMES)
asked_for = LEDGER.asked_for
claim = LEDGER.claim
end_expired = LEDGER.end_expired
end_silent = LEDGER.end_silent
give_back = LEDGER.give_back
may_be_asked_about = LEDGER.may_be_asked_about
put_off = LEDGER.put_off
record = LEDGER.record
refuse_expired = LEDGER.refuse_expired
renew = LEDGER.renew
take_back_abandoned = LEDGER.take_back_abandoned


def begin(email: Email, relay: str, key_lifetime: timedelta | None) -> None:
    """Record that the e-mail's transmission to this relay begins now: from here on the e-mail is never taken back.

    In the same transaction, an e-mail of a drafted kind tells what its draft says. If this is not exactly what is still
    to be told, nothing is recorded, and the e-mail is due again, to be drafted anew.

    Raises ClaimLost if the claim is lost, the e-mail has expired, or its draft does not hold any more.
    """
    drafting = kinds.drafting(email.kind)
    if drafting is None or email.ask_until is not None:  # a relay is asked about what was told
        LEDGER.begin(email, asked_for(key_lifetime), relay=relay)
        return
    try:
        with transaction.atomic(durable=True):
            _WITHIN.begin(email, asked_for(key_lifetime), relay=relay)
            if not drafting.tell(email, email.tells):
                raise _Outdated  # noqa: TRY301  it rolls the transaction back
    except ClaimLost:
        LEDGER.refuse_expired(email)
        raise
    except _Outdated:
        if email.claim_token:
            LEDGER.put_off({email.pk: 0.0}, email.claim_token)
        raise ClaimLost(outcomes.given_back("What it was to tell has changed, so it is drafted anew.")) from None
