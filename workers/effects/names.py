"""The states of an effect, and the names that the ledger's statements have in the table of effects."""

from datetime import UTC, datetime
from typing import Final

from django.db import models

from weir.workers.ledger.names import LedgerNames


class EffectState(models.TextChoices):
    """Where an effect is. The ends stay until somebody resolves the effect."""

    PENDING = "pending"  # the effect waits until next_attempt_at, for an attempt or for a question
    CLAIMED = "claimed"  # a worker has the effect, and has not begun it; taken back when the lease is over
    BEGUN = "begun"  # the call has begun the effect; it is never taken back
    DONE = "done"  # the effect has happened, once
    FAILED = "failed"  # the effect has certainly not happened, and is not tried again; last_reply says why
    UNKNOWN = "unknown"  # the effect may have happened; phase and last_reply say what is known
    CANCELLED = "cancelled"  # an operator does not want the effect any more
    EXPIRED = "expired"  # at `expires_at`, the effect had not happened, and no attempt had begun


MAY_ACT: Final = "weir_effects.resolve_effect"
ENDS: Final = (EffectState.DONE, EffectState.FAILED, EffectState.CANCELLED, EffectState.EXPIRED)


class Phase(models.TextChoices):
    """How far the last attempt came, if it did not end with `done`."""

    NOT_BEGUN = "not begun"  # the attempt ended before `begin`: certainly nothing happened
    BEGUN = "begun"  # the attempt had begun
    FORGOTTEN = "forgotten"  # PostgreSQL has forgotten whether and when it was begun


NAMES: Final = LedgerNames(
    table="weir_effects_effect",
    paused="weir_effects_pausedeffectkind",
    begun="begun",
    done="done",
    accepted="'done'",
    begun_at="begun_at",
    done_at="done_at",
    reference="reference",
    other_side="kind",
    own_at_record="result = COALESCE(%(result)s::text::jsonb, result),",
)


# An effect that another room performs, in turns of its own, is `pending` for that room: no mailer takes it before this
# time. It is handed over if its next attempt is at HANDED_OVER or later: a stepped clock may have moved the time. So
# say end_awaiting.sql and hand_over.sql in workers/fetches/sql, and make_unknown.sql in workers/ledger/sql, too.
HANDED_OVER_UNTIL: Final = datetime(9000, 1, 1, tzinfo=UTC)
HANDED_OVER: Final = datetime(8000, 1, 1, tzinfo=UTC)
HANDED_OVER_S: Final = 7_000 * 365 * 86_400.0  # from now on
