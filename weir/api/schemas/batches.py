"""The API's data about batches."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from weir.api.schemas.fetches import BatchName
from weir.api.schemas.values import Answer, Body, Cursor, Digits, Next
from weir.workers.fetches.reports.batches import ROWS

State = Literal["running", "open", "ended"]


class Batch(Answer):
    """Fetches under one name, and their numbers, which are exact. Fetches that were purged still count."""

    id: int
    name: str
    state: Annotated[State, Field(description="`open`: more is to come")]
    total: int
    unfinished: int
    done: int
    failed: int
    cancelled: int
    on_batch_done: str | None
    created_at: datetime
    ended_at: datetime | None
    on_done_called_at: datetime | None
    on_done_again_at: Annotated[
        datetime | None, Field(description="when the task is called again, because a worker did not know it")
    ]


class BatchSite(Answer):
    """How many of the queued fetches that were looked at are at a site."""

    site: str
    fetches: int
    starts_in_s: Annotated[float | None, Field(description="until the last of them starts; null: not known")]


class BatchFailures(Answer):
    """How many fetches failed for reasons of a class, of the newest 5,000 failed ones."""

    reason: str
    fetches: int


class BatchDetails(Batch):
    """A batch, the forecast of its end, and why its fetches failed."""

    ends_in_s: Annotated[
        float | None,
        Field(description="until the last fetch starts, at the soonest; null: not known, or none is queued"),
    ]
    looked_at: Annotated[int, Field(description="queued fetches that were looked at for this; the newest ones")]
    sites: list[BatchSite]
    failures: list[BatchFailures]


class BatchPage(Answer):
    """Some batches of a list."""

    batches: list[Batch]
    next: Next


class BatchListQuery(Body):
    """Which batches are meant, and from where on."""

    state: Literal["", "running", "open", "ended"] = ""
    name: BatchName = ""
    limit: Annotated[int, Digits, Field(ge=1, le=ROWS)] = ROWS
    after: Cursor = ""


class CancelledBatch(Answer):
    """How many fetches were cancelled, and how many are unfinished."""

    cancelled: int
    unfinished: Annotated[int, Field(description="if not 0: in flight, or more than one request cancels")]
