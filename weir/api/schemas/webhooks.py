"""The API's data about endpoints of webhooks."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from weir.api.schemas.fetches import Url
from weir.api.schemas.values import Answer, Body, Text, Why
from weir.workers.webhooks.endpoints import TYPES
from weir.workers.webhooks.listing import MOST_BEHIND
from weir.workers.webhooks.models import LONGEST_SECRET

LONGEST_NAME = 100  # characters, without what the API puts before it

Type = Annotated[Text, Field(description=f"one of {', '.join(TYPES)}")]


class NewEndpoint(Body):
    """A URL to which webhooks are to be sent."""

    name: Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME)]
    url: Url
    secret: Annotated[Text, Field(max_length=LONGEST_SECRET, description="the name of the secret whose keys sign")]
    types: Annotated[list[Type], Field(max_length=len(TYPES), description="of events; empty: all")] = []
    why: Why = ""


class Endpoint(Answer):
    """A URL to which webhooks are sent."""

    id: int
    name: str
    url: str
    secret: Annotated[str, Field(description="the name of the secret whose keys sign")]
    types: Annotated[list[str], Field(description="of events; empty: all")]
    state: Literal["delivering", "failing", "paused"]
    error: str
    failed_fetch: Annotated[int | None, Field(description="the last webhook that was not received")]
    behind: Annotated[
        int, Field(description=f"events that are not asked for yet; {MOST_BEHIND + 1:,} stands for more than one less")
    ]
    unfinished: Annotated[int, Field(description="webhooks that are asked for, and not received yet")]
    created_at: datetime
    paused_at: datetime | None
    missed_at: Annotated[datetime | None, Field(description="when events were last deleted undelivered")]


class Endpoints(Answer):
    """All endpoints."""

    endpoints: list[Endpoint]


class SentTest(Answer):
    """The webhook of a test."""

    fetch: int
