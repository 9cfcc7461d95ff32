"""The columns and queries that the tables of all effects have.

An effect is something outside of PostgreSQL that must not happen twice: an e-mail that is accepted, a refund. `kind`
and `key` identify it.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, NamedTuple, Self, TypeVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from weir.workers.tracing.rows import Traced

# The states that the tables of all effects have. Each has two further ones: for what is in flight, and what is done.
PENDING = "pending"  # it waits until next_attempt_at
CLAIMED = "claimed"  # a worker has it, and has not begun it; taken back when the lease is over
FAILED = "failed"  # it has certainly not happened, and is not tried again
UNKNOWN = "unknown"  # it may have happened
CANCELLED = "cancelled"
EXPIRED = "expired"

# How far the last attempt came, where the ledger itself says so.
NOT_BEGUN = "not begun"
BEGUN = "begun"

SAYS_WHY = ~Q(who="") & ~Q(why="")
HAS_REPLY = ~Q(last_reply="")

Row = TypeVar("Row", bound="LedgerRow")


def only_in(states: Collection[str], field: str, name: str) -> models.CheckConstraint:
    """Return a constraint that requires a value of the field in these states, and none in the others.

    PostgreSQL reads the texts of all constraints at each UPDATE, and a constraint with `^` is three times as long.
    """
    has_value = Q(**{f"{field}__isnull": False})
    return models.CheckConstraint(condition=Exact(Q(state__in=[str(state) for state in states]), has_value), name=name)


class EndedRow(NamedTuple):
    """One row of `expire`: an effect that has ended, `expired` or `unknown`."""

    id: int
    state: str
    phase: str
    last_reply: str
    claimed_by: str
    correlation_id: str


class LedgerQuerySet(models.QuerySet[Row]):
    """The queries of a table of effects."""

    def due(self) -> Self:
        """Return the effects that are due, including those of paused kinds; those that wait longest come first."""
        return self.filter(state=PENDING, next_attempt_at__lte=Now()).order_by("next_attempt_at", "pk")

    def abandoned(self) -> Self:
        """Return the claimed effects whose lease is over: their worker died before it began them."""
        return self.filter(state=CLAIMED, claimed_until__lte=Now())

    def silent(self, after: timedelta) -> Self:
        """Return the effects that are in flight, and of which no answer can come any more. Each room says which."""
        raise NotImplementedError


class LedgerRow(Traced):
    """An effect. From the claim on, only the worker that has the claim's token writes the row (`leases`)."""

    kind: Any
    key: Any
    state: Any
    attempts: Any
    phase: Any
    last_reply: Any
    ask_until: Any
    claimed_until: Any
    ended_at: Any
    context = models.JSONField(default=dict, db_default={}, help_text="the arguments of its kind")
    priority = models.SmallIntegerField(default=0, db_default=0, help_text="higher ones go first")
    created_at = models.DateTimeField(db_default=Now())
    next_attempt_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, help_text="no attempt begins from then on; empty: it does not expire")
    # The fence: only the worker that has the token of the claim writes the outcome of an attempt.
    claim_token = models.UUIDField(null=True)
    claimed_by = models.CharField(max_length=300, blank=True, help_text="host and process id of the last worker")
    earlier_reply = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="of an earlier attempt that was accepted, known while a later one is made",
    )

    class Meta:
        abstract = True


class Pause(models.Model):
    """A kind of which no effect is begun, until a person resumes the kind."""

    kind = models.CharField(max_length=100, primary_key=True)
    paused_at = models.DateTimeField(db_default=Now())
    who = models.CharField(max_length=254)
    why = models.TextField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.kind}, paused by {self.who}: {self.why}"
