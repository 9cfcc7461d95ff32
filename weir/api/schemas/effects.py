"""The API's data about effects."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from weir.api.schemas.emails import MailReason, MailReasonQuery
from weir.api.schemas.values import Answer, Body, Cursor, Next, Why
from weir.workers.effects.kinds import LONGEST_NAME
from weir.workers.effects.models import LONGEST_USER
from weir.workers.ledger.queueing import LONGEST_KEY

EffectState = Literal["pending", "claimed", "begun", "done", "failed", "unknown", "cancelled", "expired"]
Kind = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, description="such as stripe.refund")]


class EffectQuery(Body):
    """Which effects are meant, and from where on."""

    state: Literal["", EffectState] = ""
    kind: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    key: Annotated[str, Field(max_length=LONGEST_KEY, description="one effect of each kind has it")] = ""
    user: Annotated[str, Field(max_length=LONGEST_USER, description="the key of the user whom they concern")] = ""
    after: Cursor = ""


class Effect(Answer):
    """One effect."""

    id: int
    kind: str
    key: str
    state: EffectState
    phase: str
    attempts: int
    last_reply: str
    reference: Annotated[str, Field(description="the name that the other side gave it")]
    idempotency_key: UUID
    claimed_by: str
    created_at: datetime
    next_attempt_at: Annotated[datetime | None, Field(description="none if a fetcher begins it, in its turn")]
    expires_at: datetime | None
    begun_at: datetime | None
    done_at: datetime | None
    ended_at: datetime | None
    ask_until: Annotated[datetime | None, Field(description="until when it is asked what became of it")]
    on_done: str
    on_done_called_at: datetime | None
    user: Annotated[str, Field(description="the key of the user whom it concerns, if one was named")]
    forgotten_at: Annotated[
        datetime | None, Field(description="when its user was to be forgotten; when it was, if `user` is empty")
    ]
    correlation_id: str


class EffectPage(Answer):
    """Some effects of a list."""

    effects: list[Effect]
    next: Next
    looked_at: int | None


class EffectBlocker(Answer):
    """One thing that is in an effect's way."""

    kind: str
    text: str
    until: datetime | None


class EffectResolution(Answer):
    """What somebody said about an effect."""

    id: int
    resolved_at: datetime
    act: str
    who: str
    why: str
    state: str
    phase: str
    last_reply: str


class EffectDetails(Effect):
    """All about one effect, with what it was asked to do, and what it returned."""

    context: dict[str, Any]
    result: Any
    blockers: list[EffectBlocker]
    resolutions: list[EffectResolution]


class NewEffectResolution(Body):
    """What became of an effect, or what is to become of it."""

    act: Annotated[
        Literal["done", "again", "ask", "give up", "cancel"],
        Field(
            description="it happened; do it again, at the risk that it happens twice; ask the probe of its kind; leave "
            "it undone; do not do one that waits. What had ended does not expire any more"
        ),
    ]
    why: Why


class EffectReason(MailReason):
    """Why a kind of effect is paused or resumed: it is kept."""


class EffectReasonQuery(MailReasonQuery):
    """The reason of a request that has no body."""


class ResolvedEffect(Answer):
    """What the effect is now."""

    effect: int
    state: EffectState


class EffectKind(Answer):
    """A kind of effect, and how an unknown outcome is settled: by its probe, by its key, or by a person (null).

    `etag` is for If-Match, where the kind is paused or resumed.
    """

    kind: str
    is_registered: bool
    settled_by: Literal["probe", "key"] | None
    at_once: int | None
    paused_at: datetime | None
    who: str
    why: str
    etag: str


class EffectKinds(Answer):
    """All kinds that are registered or paused."""

    kinds: list[EffectKind]
