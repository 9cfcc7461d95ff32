"""The API's data about watches."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from weir.api.schemas.fetches import MOST_URLS, RequestHeaders, Url
from weir.api.schemas.values import Answer, Body, Count, Cursor, Digits, Flag, Host, Next, Seconds, Text
from weir.conf.texts.share_weights import LONGEST_SHARE
from weir.workers.fetches.enqueue import PRIORITIES
from weir.workers.watches.listing import ROWS
from weir.workers.watches.watching import MOST_JITTER

State = Literal["watching", "failing", "paused"]


class NewWatches(Body):
    """URLs that are to be watched, and how."""

    urls: Annotated[list[Url], Field(min_length=1, max_length=MOST_URLS)]
    every_s: Annotated[Seconds, Field(description="the period, in seconds")]
    jitter: Annotated[float, Field(ge=0, le=MOST_JITTER, description="a share of the period")] = 0.1
    shortest_s: Annotated[Seconds | None, Field(description="the period adapts, between this one")] = None
    longest_s: Annotated[Seconds | None, Field(description="and this one")] = None
    priority: Annotated[Count, Field(ge=PRIORITIES[0], le=PRIORITIES[-1])] = 0
    revalidate: Flag = True
    headers: RequestHeaders | None = None
    share: Annotated[Text | None, Field(max_length=LONGEST_SHARE, description="whose their fetches are")] = None


class Watch(Answer):
    """A URL that is fetched again and again."""

    id: int
    key: str
    url: str
    state: State
    every_s: float
    period_s: Annotated[float, Field(description="the period now")]
    jitter: float
    shortest_s: float | None
    longest_s: float | None
    priority: int
    revalidate: bool
    tell_first: bool
    on_change: str
    share: str
    next_at: Annotated[datetime | None, Field(description="when it is asked for next; null while it is paused")]
    asked_at: datetime | None
    fetch: Annotated[int | None, Field(description="the last fetch that was queued; it may be gone")]
    judged_at: datetime | None
    changed_at: Annotated[datetime | None, Field(description="when a body that differed came last")]
    changes: int
    body_of: Annotated[int | None, Field(description="the fetch with the last good body; it may be gone")]
    error: str
    failing_since: datetime | None
    created_at: datetime


class NewWatchesAnswer(Answer):
    """How many of the watches are new, and their ids in the order of the URLs."""

    new: int
    ids: list[int]


class WatchPage(Answer):
    """Some watches of a list."""

    watches: list[Watch]
    next: Next


class WatchListQuery(Body):
    """Which watches are meant, and from where on."""

    host: Host = ""
    state: Literal["", "failing", "paused"] = ""
    limit: Annotated[int, Digits, Field(ge=1, le=ROWS)] = ROWS
    after: Cursor = ""
