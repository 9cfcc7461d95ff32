"""Effects, each of which happens once; what people decided about them; and kinds that are paused."""

from datetime import datetime, timedelta
from typing import ClassVar, Self
from uuid import uuid4

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from weir.workers import task_names
from weir.workers.effects.names import ENDS, HANDED_OVER, EffectState, Phase
from weir.workers.ledger.rows import HAS_REPLY, SAYS_WHY, LedgerQuerySet, LedgerRow, Pause, only_in

HELD = (EffectState.CLAIMED, EffectState.BEGUN, EffectState.UNKNOWN)
# The effect has ended, and has not called the task of its `on_done` since.
OWES_CALL = (
    Q(state__in=[state.value for state in ENDS])
    & ~Q(on_done="")
    & (Q(on_done_called_at__isnull=True) | Q(on_done_called_at__lt=F("ended_at")))
)
# Its user was to be forgotten, and it has ended and told so since; or an outcome came late, after it was forgotten.
TO_FORGET = (
    Q(state__in=[state.value for state in ENDS], forgotten_at__isnull=False, on_done_again_at__isnull=True)
    & (~Q(user_key="") | Q(forgotten_at__lt=F("ended_at")))
    & (Q(on_done="") | Q(on_done_called_at__gte=F("ended_at")))
)
LONGEST_USER = 255  # characters
_PENDING, _NOT_DONE = Q(state=EffectState.PENDING), ~Q(state=EffectState.DONE)


class Act(models.TextChoices):
    """What an EffectResolution did."""

    DONE = "done", "it happened"
    AGAIN = "again", "do it again"
    ASK = "ask", "ask the other side"
    GIVE_UP = "give up", "leave it undone"
    CANCEL = "cancel", "do not do it"


class EffectQuerySet(LedgerQuerySet["Effect"]):
    """The queries of effects."""

    def silent(self, after: timedelta) -> Self:  # noqa: ARG002  the lease of an effect that is in flight says it
        """Return the effects that are in flight, and whose process does not renew their lease any more."""
        return self.filter(state=EffectState.BEGUN, claimed_until__lte=Now())

    def owing_calls(self) -> Self:
        """Return the effects that have ended, and have not called their tasks since."""
        return self.filter(OWES_CALL)

    def of_user(self, key: str) -> Self:
        """Return the effects that were queued with this user, who was not forgotten in them."""
        return self.filter(~Q(user_key=""), user_key=key)  # the first as in the index

    def unknown(self) -> Self:
        """Return the effects that wait for an operator, the oldest first."""
        return self.filter(state=EffectState.UNKNOWN).order_by("begun_at", "pk")


class Effect(LedgerRow):
    """Something outside of PostgreSQL that must not happen twice: `kind` and `key` identify it. Only read it."""

    kind = models.CharField(max_length=100, help_text="the kind of effect, such as stripe.refund")
    key = models.CharField(max_length=100, help_text="what it is about; one effect of a kind for each key")
    state = models.CharField(max_length=10, choices=EffectState, default=EffectState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="those that ended")
    claimed_until = models.DateTimeField(
        null=True, help_text="the worker's lease: when it is taken back or, once begun, asked about or unknown"
    )
    begun_at = models.DateTimeField(null=True, help_text="when its call began it (the database's clock)")
    done_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, help_text="when it came into the state in which it ended")
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField(
        blank=True, help_text="what its call or its probe said last, or what happened instead"
    )
    ask_until = models.DateTimeField(
        null=True, help_text="until then its probe, or a call with the same key, can settle an unknown outcome"
    )
    idempotency_key = models.UUIDField(
        default=uuid4, help_text="the same in all attempts until a person has an effect done that had not happened"
    )
    reference = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="the name that the other side gave it"
    )
    result = models.JSONField(null=True, help_text="what its call returned, or its probe")
    on_done = models.CharField(
        max_length=task_names.LONGEST,
        blank=True,
        default="",
        db_default="",
        help_text="the task that is called, with the id, when it has ended",
    )
    on_done_called_at = models.DateTimeField(
        null=True, help_text="when it was called last; a later end is still to be told"
    )
    on_done_again_at = models.DateTimeField(null=True, help_text="when it is called again: a worker knew no such task")

    user_key = models.CharField(
        max_length=LONGEST_USER,
        blank=True,
        default="",
        db_default="",
        help_text="the key of the user whom it concerns; empty: none is named, or the user was forgotten",
    )
    forgotten_at = models.DateTimeField(
        null=True, help_text="when its user was to be forgotten, and then, once it had ended, was"
    )

    objects: ClassVar = EffectQuerySet.as_manager()

    class Meta:
        permissions: ClassVar = [("resolve_effect", "Can say what became of an effect, cancel it, and pause kinds")]
        constraints: ClassVar = [
            # `once` queues each effect once.
            models.UniqueConstraint(fields=["kind", "key"], name="weir_effect_kind_key_unique"),
            models.CheckConstraint(condition=Q(state__in=EffectState.values), name="weir_effect_state_known"),
            only_in(HELD, "claim_token", "weir_effect_held_has_token"),
            only_in([EffectState.CLAIMED, EffectState.BEGUN], "claimed_until", "weir_effect_claimed_has_lease"),
            only_in([EffectState.BEGUN, EffectState.UNKNOWN], "begun_at", "weir_effect_begun_has_since"),
            only_in([EffectState.DONE], "done_at", "weir_effect_done_has_done_at"),
            models.CheckConstraint(
                condition=~Q(state=EffectState.FAILED) | HAS_REPLY, name="weir_effect_failed_says_why"
            ),
            models.CheckConstraint(
                condition=~Q(state=EffectState.UNKNOWN) | ~Q(phase="") & HAS_REPLY,
                name="weir_effect_unknown_says_what",
            ),
        ]
        indexes: ClassVar = [
            # What is due, whatever its kind: to decide whether to wake a worker.
            models.Index(fields=["next_attempt_at", "id"], condition=_PENDING, name="weir_effect_pending"),
            # For claims: the queue of each kind and priority.
            models.Index(
                fields=["kind", "priority", "next_attempt_at", "id"], condition=_PENDING, name="weir_effect_queues"
            ),
            # To take back and ask about what workers hold, a few at most. For operators: what is unknown.
            models.Index(
                F("state"), F("begun_at"), condition=Q(state__in=[s.value for s in HELD]), name="weir_effect_held"
            ),
            # For expiry: the waiting and claimed effects that expire.
            models.Index(
                fields=["expires_at"],
                condition=Q(state__in=["pending", "claimed"], expires_at__isnull=False),
                name="weir_effect_expires",
            ),
            # Sweep: calls of `on_done` that were not made, and those that workers kept.
            models.Index(fields=["ended_at"], condition=OWES_CALL, name="weir_effect_owes_call"),
            models.Index(
                fields=["on_done_again_at"],
                condition=Q(on_done_again_at__isnull=False),
                name="weir_effect_called_again",
            ),
            # For the purge after WEIR_EFFECT_RETENTION.
            models.Index(
                fields=["ended_at"],
                condition=Q(state__in=[state.value for state in ENDS]),
                name="weir_effect_ended",
            ),
            # To list a user's effects, and to forget the user. Effects that name none are left out.
            models.Index(fields=["user_key", "id"], condition=~Q(user_key=""), name="weir_effect_user"),
            # What is still to be forgotten, by the purge, too.
            models.Index(fields=["user_key", "id"], condition=TO_FORGET, name="weir_effect_to_forget"),
            # For lists of a state, the oldest first, and for numbers. Most effects are done, and are left out.
            models.Index(fields=["state", "created_at", "id"], condition=_NOT_DONE, name="weir_effect_not_done"),
        ]

    def __str__(self) -> str:
        return f"effect {self.pk} {self.kind} {self.key} ({self.state})"

    @property
    def due_at(self) -> datetime | None:
        """Return when it is, or was, due for an attempt; None if a fetcher begins it, in the turn of its fetch."""
        return None if self.next_attempt_at >= HANDED_OVER else self.next_attempt_at


class EffectResolution(models.Model):
    """What an operator said about an effect, and what was known then. Only forgetting changes it."""

    effect = models.ForeignKey(Effect, models.PROTECT, related_name="resolutions")
    resolved_at = models.DateTimeField(db_default=Now())
    act = models.CharField(max_length=10, choices=Act)
    who = models.CharField(max_length=254)
    why = models.TextField()
    state = models.CharField(max_length=10, choices=EffectState, help_text="the effect's, before")
    phase = models.CharField(max_length=10, choices=Phase, blank=True)
    last_reply = models.TextField(blank=True)
    claimed_by = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=SAYS_WHY, name="weir_effect_resolution_says_why")]

    def __str__(self) -> str:
        return f"{self.who}: {Act(self.act).label}"


class PausedEffectKind(Pause):
    """A kind of which no effect is begun, until a person resumes the kind."""
