"""The API's data about slots that programs take."""

from typing import Annotated, Final

from pydantic import Field, StrictFloat, StrictInt

from weir.api.schemas.values import Answer, Body, Count, Seconds, Text
from weir.ratelimit.models import LONGEST_REASON

MOST_SLOTS: Final = 100
LONGEST_WAIT_S: Final = 60.0
LATEST_S: Final = 5.0
LONGEST_SLOT_ID: Final = 100
SlotId = Annotated[
    Text, Field(min_length=1, max_length=LONGEST_SLOT_ID, description="as `POST /sites/{host}/slots` gave it")
]
SlotIds = Annotated[list[SlotId], Field(min_length=1, max_length=MOST_SLOTS)]
StartWithin = Annotated[
    float, Field(description="after so many seconds from the sending of the request, start nothing")
]


class WantedSlots(Body):
    """How many starts a program wants, and when."""

    count: Annotated[
        Count, Field(ge=1, le=MOST_SLOTS, description="at most; fewer come where they would take longer than 5 s")
    ] = 1
    max_wait_s: Annotated[
        StrictFloat | StrictInt,
        Field(ge=0, le=LONGEST_WAIT_S, description="refuse if the first start is farther away"),
    ] = 15
    late_s: Annotated[
        StrictFloat | StrictInt,
        Field(ge=0, le=LATEST_S, description="how late starts may be, beside the site's grace; this costs rate"),
    ] = 0.1


class TakenSlot(Answer):
    """A start that nobody else makes."""

    id: str
    start_in_s: Annotated[float, Field(description="from the arrival of the answer; do not start earlier")]


class TakenSlots(Answer):
    """Slots of a site, which are the program's alone. If a start is late, delay those after it by as much."""

    site: str
    slots: list[TakenSlot]
    start_within_s: StartWithin
    ask_after_s: Annotated[
        float,
        Field(
            description="for a start later than this, from the sending of the request, ask right before it whether its "
            "slot still stands: `POST /sites/{host}/slots/used`"
        ),
    ]
    interval_s: Annotated[float, Field(description="the site's interval")]


class UsedSlots(Body):
    """The slots in which starts are made now."""

    ids: SlotIds


class ReleasedSlots(Body):
    """The slots in which no start will be made."""

    ids: SlotIds


class UsableSlot(Answer):
    """A slot that may be used."""

    id: str
    start_within_s: StartWithin


class UsableSlots(Answer):
    """The slots that may be used. The others were recalled or given back, or their time is over: take new ones."""

    usable: list[UsableSlot]


class Released(Answer):
    """How many slots were given back."""

    released: int


class Refusal(Body):
    """What the site answered to a start that it refused, such as 429."""

    id: SlotId
    retry_after_s: Annotated[
        Seconds | None, Field(description="as the site's Retry-After says; null: longer with each refusal in a row")
    ] = None
    reason: Annotated[Text, Field(max_length=LONGEST_REASON, description="for people, such as `429 Slow down`")] = ""


class BackedOff(Answer):
    """For how long nothing starts at the site."""

    backed_off_for_s: Annotated[float | None, Field(description="null: the refusal changed nothing")]
