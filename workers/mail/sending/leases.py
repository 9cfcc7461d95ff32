"""Writes what a mailer does with the e-mails that it holds, through the ledger. Each function commits by itself.

1. `claim`: `pending` -> `claimed`, for a lease of WEIR_MAIL_LEASE.
2. `begin`, right before the content is transmitted: `claimed` -> `sending`, if the claim still holds.
3. `record`: the outcome, if the claim still holds.

`weir.workers.ledger.leases` says what becomes of an e-mail whose worker dies. The e-mail that it was sending becomes
`unknown` after WEIR_MAIL_UNKNOWN_AFTER, and is not sent again unless an operator says so.
"""

from collections.abc import Sequence
from datetime import timedelta

from weir.conf import settings
from weir.workers.ledger import leases
from weir.workers.ledger.claiming import ALL_KINDS, ClaimLost, taking
from weir.workers.ledger.leases import EndedRow
from weir.workers.ledger.names import LedgerEvents
from weir.workers.mail import addresses, suppression
from weir.workers.mail.models import Email
from weir.workers.mail.phases import NAMES

__all__ = ["ALL_KINDS", "ClaimLost", "taking"]

FORGOTTEN_AT_ONCE = 500  # e-mails to a forgotten recipient, in one statement
NO_WORD = "The worker that began to send it did not say what became of it: it died, or lost the database."


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
        """Forget e-mails that were queued before their recipient was forgotten, and committed afterwards."""
        if ended:
            recipients = Email.objects.filter(pk__in=[row.id for row in ended]).values_list("recipient", flat=True)
            for address in suppression.forgotten(recipients):
                suppression.forget_ended(address, FORGOTTEN_AT_ONCE)


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

    Raises ClaimLost if the claim is lost, or the e-mail has expired.
    """
    LEDGER.begin(email, asked_for(key_lifetime), relay=relay)
