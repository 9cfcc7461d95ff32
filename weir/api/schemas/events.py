"""The API's data about events: the ends of fetches, e-mails and effects."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from weir.api.schemas.values import LONGEST_CURSOR, Answer, Body, Digits
from weir.workers.events.log import MOST

USUAL: Final = 100
NEWEST: Final = "newest"
Id = Annotated[int, Field(description="tells events apart, and grows: one that is answered again has the same")]
Next = Annotated[str, Field(description="the cursor after these events, also where there are none")]


class EventQuery(Body):
    """From where on."""

    after: Annotated[
        str,
        Field(
            max_length=LONGEST_CURSOR,
            description="`next` of the answer before; without it, the oldest event that is kept; `newest`: none so far",
        ),
    ] = ""
    limit: Annotated[int, Digits, Field(ge=1, le=MOST)] = USUAL


class FetchEvent(Answer):
    """A fetch has ended. If it is retried, and ends again, that is another event."""

    id: Id
    type: Literal["fetch.done", "fetch.failed", "fetch.cancelled"]
    fetch: int
    state: Literal["done", "failed", "cancelled"]
    reference: Annotated[str, Field(description="the caller's")]
    at: datetime


class FetchEvents(Answer):
    """Ends of fetches, in the order of the log."""

    events: list[FetchEvent]
    next: Next


class EmailEvent(Answer):
    """An e-mail has ended. If it bounces, or is resolved, after that, that is another event."""

    id: Id
    type: Annotated[str, Field(description="`email.` and the state")]
    email: int
    state: Literal["sent", "failed", "unknown", "bounced", "cancelled", "suppressed", "expired"]
    kind: str
    key: str
    at: datetime


class EmailEvents(Answer):
    """Ends of e-mails, in the order of the log."""

    events: list[EmailEvent]
    next: Next


class EffectEvent(Answer):
    """An effect has ended, or is unknown. If it is resolved, and ends again, that is another event."""

    id: Id
    type: Annotated[str, Field(description="`effect.` and the state")]
    effect: int
    state: Literal["done", "failed", "unknown", "cancelled", "expired"]
    kind: str
    key: str
    at: datetime


class EffectEvents(Answer):
    """Ends of effects, in the order of the log."""

    events: list[EffectEvent]
    next: Next
