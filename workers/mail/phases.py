"""EmailState: where an e-mail is. Phase: how far its last attempt came."""

from django.db import models


class EmailState(models.TextChoices):
    """Where an e-mail is. `sent` ends when it bounces; the other ends stay, unless an operator resolves them."""

    PENDING = "pending"  # waits until next_attempt_at
    CLAIMED = "claimed"  # a worker has it and has not begun to transmit it: taken back when the lease is over
    SENDING = "sending"  # a worker transmits it: never taken back
    SENT = "sent"  # a relay accepted it, or an operator says that it arrived
    FAILED = "failed"  # a relay refused it, or it could not be written: last_reply says why
    UNKNOWN = "unknown"  # it may have been accepted: phase and last_reply say what is known
    BOUNCED = "bounced"  # it was accepted, and came back: last_reply says why
    CANCELLED = "cancelled"  # an operator, or the application, does not want it sent any more
    SUPPRESSED = "suppressed"  # its recipient is on the suppression list
    EXPIRED = "expired"  # no attempt had been accepted, and none had begun, at `expires_at`


HELD = (EmailState.CLAIMED, EmailState.SENDING, EmailState.UNKNOWN)
NOT_BEGUN = (EmailState.PENDING, EmailState.CLAIMED)
# Ends that say that something went wrong, or that a person did not want it.
UNSENT = tuple(state for state in EmailState if state not in {*NOT_BEGUN, EmailState.SENDING, EmailState.SENT})


class Phase(models.TextChoices):
    """How far the last attempt came that did not end `sent`."""

    NOT_BEGUN = "not begun"  # before the content was transmitted: certainly not accepted
    BEFORE_DOT = "before dot"  # the content was being transmitted: certainly not accepted
    AFTER_DOT = "after dot"  # everything was transmitted and no reply came: accepted or not
    FORGOTTEN = "forgotten"  # PostgreSQL has forgotten whether and when it was transmitted: accepted or not
    BEGUN = "begun"  # transmission began and its end is not known: the worker died, or its transport cannot tell
