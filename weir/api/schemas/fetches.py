"""The API's data about fetches."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from weir.api.schemas.values import LARGEST_ID, Answer, Body, Count, Cursor, Digits, Flag, Host, Moment, Next, Text, Why
from weir.conf.texts.references import LONGEST_REFERENCE
from weir.conf.texts.request_headers import MOST_HEADERS
from weir.conf.texts.share_weights import LONGEST_SHARE
from weir.workers.fetches.enqueue import MOST_ATTEMPTS, PRIORITIES
from weir.workers.fetches.methods import MOST_REDIRECTS, USUAL_REDIRECTS
from weir.workers.fetches.models import LONGEST_BATCH_NAME
from weir.workers.fetches.reports.fetch_list import ROWS
from weir.workers.fetches.targets import MAX_LENGTH

MOST_URLS: Final = 1_000
MOST_RETRIED: Final = 100_000
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
FetchState = Literal["queued", "reserved", "running", "done", "failed", "cancelled"]
URL_FILTER: Final = "with * at its end: how URLs begin; without a scheme: a part of them"
Url = Annotated[Text, Field(max_length=MAX_LENGTH)]
RequestHeaders = Annotated[
    dict[str, Text],
    Field(max_length=MOST_HEADERS, description="headers of the requests, by name; they name no secrets"),
]

Reference = Annotated[Text, Field(max_length=LONGEST_REFERENCE)]
BatchName = Annotated[Text, Field(max_length=LONGEST_BATCH_NAME)]
Incomplete = Annotated[str, Field(description="why the body is not whole, or not what its headers say")]


class NewFetches(Body):
    """URLs that are wanted, and how."""

    urls: Annotated[list[Url], Field(max_length=MOST_URLS, description="at least one, unless it closes a batch")]
    priority: Annotated[
        Count, Field(ge=PRIORITIES[0], le=PRIORITIES[-1], description="higher goes first within a site")
    ] = 0
    not_before: Moment | None = None
    max_attempts: Annotated[Count, Field(ge=1, le=MOST_ATTEMPTS)] = 5
    revalidate: Annotated[Flag, Field(description="ask only whether the last good answer still holds")] = False
    headers: RequestHeaders | None = None
    method: Annotated[
        Method, Field(description="all but GET and HEAD take the scope `weir_fetches.send_fetch`, and `repeatable`")
    ] = "GET"
    body: Annotated[Text | None, Field(description="sent in UTF-8; at most one of `body`, `json` and `form`")] = None
    json_: Annotated[Any, Field(alias="json", description="the body, sent as JSON")] = None
    form: Annotated[dict[str, Text] | None, Field(description="the body, sent as a form")] = None
    repeatable: Annotated[
        Flag, Field(description="the request may be sent more than once, with the same Idempotency-Key")
    ] = False
    max_redirects: Annotated[Count, Field(ge=0, le=MOST_REDIRECTS, description="0: a redirect is the result")] = (
        USUAL_REDIRECTS
    )
    dedupe: Annotated[Flag, Field(description="a URL that has an unfinished fetch like this gets that one")] = False
    batch: Annotated[
        BatchName | None,
        Field(min_length=1, description="the batch they join; `api:` and the program's first token go before its name"),
    ] = None
    more_to_come: Annotated[Flag, Field(description="the batch ends only after a request for it without this")] = False
    share: Annotated[
        Text | None, Field(max_length=LONGEST_SHARE, description="whose they are: the shares of a site take turns")
    ] = None
    reference: Annotated[
        Reference | list[Reference] | None,
        Field(description="what you call them: a text for all, or one for each URL; lists and events have it"),
    ] = None


class AcceptedFetch(Answer):
    """A fetch that was asked for. A text that is no URL has failed, and says why."""

    id: int
    url: str
    state: FetchState
    error: str
    reference: str
    created_at: datetime


class AcceptedFetches(Answer):
    """The fetches, in the order of the URLs."""

    fetches: list[AcceptedFetch]
    batch: Annotated[int | None, Field(description="the id of their batch")] = None


class ListedFetch(Answer):
    """A fetch of a list."""

    id: int
    url: str
    state: FetchState
    site: str
    status_code: int | None
    error: str
    incomplete: Incomplete
    attempts: int
    max_attempts: int
    priority: int
    is_robots: bool
    share: str
    reference: str
    not_before: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness_ms: float | None
    elapsed_ms: float | None


class FetchPage(Answer):
    """Some fetches of a list."""

    fetches: list[ListedFetch]
    next: Next
    looked_at: int | None  # how many rows were looked at, if the page is not full although the list goes on


class FetchQuery(Body):
    """Which fetches are meant: those that meet all of it."""

    state: Annotated[list[FetchState], Field(description="any of these")] = []
    site: Host = ""
    error: Annotated[str, Field(max_length=1_000, description="a part of it; with * at its end: its beginning")] = ""
    status: Annotated[int | None, Digits, Field(ge=100, le=999)] = None
    url: Annotated[str, Field(max_length=MAX_LENGTH, description=URL_FILTER)] = ""
    since: Annotated[str, Field(max_length=50, description="ended since: a time, or how long ago, such as 2h")] = ""
    until: Annotated[str, Field(max_length=50, description="ended until, written as `since`")] = ""
    batch: Annotated[str, Field(max_length=LONGEST_BATCH_NAME, description="the whole name of their batch")] = ""
    share: Annotated[str, Field(max_length=LONGEST_SHARE)] = ""
    reference: Annotated[str, Field(max_length=LONGEST_REFERENCE)] = ""


class FetchListQuery(FetchQuery):
    """Which fetches are meant, and from where on."""

    limit: Annotated[int, Digits, Field(ge=1, le=ROWS)] = ROWS
    after: Cursor = ""


class Step(Answer):
    """Something that happened to the fetch, or that is expected."""

    kind: str
    at: datetime | None
    text: str
    is_expected: bool


class FetchDetails(Answer):
    """All about one fetch, but for its body."""

    id: int
    url: str
    method: Method
    request_body_bytes: int | None
    idempotency_key: UUID | None
    hop_url: str
    redirects: int
    redirect_chain: list[tuple[int, str]]  # the status of each redirect, and where it led
    max_redirects: int
    state: FetchState
    site: str
    priority: int
    share: str
    reference: str
    attempts: int
    max_attempts: int
    status_code: int | None
    error: str
    request_headers: dict[str, str] | None
    headers: list[tuple[str, str]]
    is_robots: bool
    token_client: str
    endpoint_id: Annotated[int | None, Field(description="to which it is a webhook")]
    created_at: datetime
    not_before: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lateness_ms: float | None
    elapsed_ms: float | None
    on_done: str
    batch: str
    batch_id: int | None
    unchanged_from: int | None
    incomplete: Incomplete
    correlation_id: str
    body_bytes: int | None
    body_is_deleted: bool
    steps: list[Step]


class Blocker(Answer):
    """One thing that is in a fetch's way, or its end."""

    kind: str
    text: str
    until: datetime | None
    remedy: str


class FetchWhy(Answer):
    """Why a fetch waits: everything that is in its way, the headline first."""

    fetch: int
    state: FetchState
    now: datetime
    blockers: list[Blocker]


class RetryFilter(Body):
    """Which of the failed fetches are meant: those that meet all of it, and no others."""

    ids: Annotated[
        list[Annotated[Count, Field(ge=1, le=LARGEST_ID)]] | None, Field(min_length=1, max_length=MOST_URLS)
    ] = None
    site: Host = ""
    error: Annotated[Text, Field(max_length=1_000)] = ""
    status: Annotated[Count | None, Field(ge=100, le=999)] = None
    url: Annotated[Text, Field(max_length=MAX_LENGTH, description=URL_FILTER)] = ""
    since: Annotated[Text, Field(max_length=50)] = ""
    until: Annotated[Text, Field(max_length=50)] = ""
    batch: BatchName = ""
    share: Annotated[Text, Field(max_length=LONGEST_SHARE)] = ""
    reference: Reference = ""


class Retry(Body):
    """What is to be queued again: first counted (`dry_run`), then done, if there are not more than `expected`."""

    filter: RetryFilter
    dry_run: Flag = False
    expected: Annotated[Count | None, Field(ge=0, le=MOST_RETRIED, description="needed without `dry_run`")] = None
    why: Why = ""


class Retried(Answer):
    """How many failed fetches are queued again, and how many stay failed, by the reason."""

    dry_run: bool
    queued: int  # with `dry_run`: how many would be queued
    not_urls: int
    robots_files: int
    access_tokens: int
    already_unfinished: int
