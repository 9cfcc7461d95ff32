"""Defines EmailState, which says where an e-mail is, Phase, which says how far its last attempt came, and NAMES."""

from typing import Final

from django.db import models

from weir.workers.ledger.names import LedgerNames


class EmailState(models.TextChoices):
    """Where an e-mail is. A sent e-mail may still bounce; other ends stay until somebody resolves the e-mail."""

    PENDING = "pending"  # the e-mail waits until next_attempt_at
    CLAIMED = "claimed"  # a worker has the e-mail, and has not begun to transmit it; taken back when the lease is over
    SENDING = "sending"  # a worker transmits the e-mail; it is never taken back
    SENT = "sent"  # a relay accepted the e-mail, or an operator says that it arrived
    FAILED = "failed"  # a relay refused the e-mail, or it could not be written; last_reply says why
    UNKNOWN = "unknown"  # the e-mail may have been accepted; phase and last_reply say what is known
    BOUNCED = "bounced"  # the e-mail was accepted, and came back; last_reply says why
    CANCELLED = "cancelled"  # an operator, or the application, does not want the e-mail sent any more
    SUPPRESSED = "suppressed"  # the recipient is on the suppression list
    EXPIRED = "expired"  # at `expires_at`, no attempt had been accepted, and none had begun


HELD = (EmailState.CLAIMED, EmailState.SENDING, EmailState.UNKNOWN)
NOT_BEGUN = (EmailState.PENDING, EmailState.CLAIMED)
# The ends other than `sent`: something went wrong, or a person did not want the e-mail sent.
UNSENT = tuple(state for state in EmailState if state not in {*NOT_BEGUN, EmailState.SENDING, EmailState.SENT})


class Phase(models.TextChoices):
    """How far the last attempt came, if it did not end with `sent`."""

    NOT_BEGUN = "not begun"  # the attempt ended before the content was transmitted: certainly not accepted
    BEFORE_DOT = "before dot"  # the attempt ended while the content was being transmitted: certainly not accepted
    AFTER_DOT = "after dot"  # everything was transmitted, and no reply came: perhaps accepted
    FORGOTTEN = "forgotten"  # PostgreSQL has forgotten whether and when it was transmitted: perhaps accepted
    BEGUN = "begun"  # transmission began, and its end is not known: the worker died, or its transport cannot tell


# What the statements of the ledger say in the table of e-mails.
NAMES: Final = LedgerNames(
    table="weir_mail_email",
    paused="weir_mail_pausedkind",
    begun="sending",
    done="sent",
    accepted="'sent', 'bounced'",
    begun_at="sending_since",
    done_at="sent_at",
    reference="provider_id",
    other_side="relay",
    own_at_begin="relay = %(relay)s,",
    own_at_loss="relay = '',",
)
