"""The forms in which one attempt travels: a Job that is claimed, the Event that it comes to, the Outcome that is stored."""

import asyncio
from dataclasses import dataclass

from ratelimit.pacing import Run
from workers.fetches.models import State


@dataclass(frozen=True, kw_only=True, slots=True)
class Validators:
    """What the last good result of an URL is known by."""

    fetch_id: int
    etag: str
    last_modified: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One claimed fetch: what to request, and when."""

    fetch_id: int
    url: str
    redirects: int
    attempts: int
    max_attempts: int
    site_id: int
    site: str
    slot_id: int
    start_at: float  # this process' monotonic clock
    run: Run  # shared by the jobs of one site in one message
    turns: asyncio.Semaphore | None = None  # of that run: how many may be under way; None = any number
    validators: Validators | None = None
    is_robots: bool = False  # a robots.txt that Weir asks for
    obeys_robots: bool = False  # not to be requested before robots.txt has been asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole answer came. The body is as it was on the wire."""

    job: Job
    status_code: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    lateness_ms: float
    elapsed_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """No whole answer came."""

    job: Job
    error: str
    permanent: bool = False
    lateness_ms: float | None = None  # None: the request was not written, its slot is unused
    elapsed_ms: float | None = None
    slot_used: bool = False  # the request was written, though its times are not known
    not_before_s: float = 0.0  # another attempt is of no use any sooner


@dataclass(frozen=True, kw_only=True, slots=True)
class Snoozed:
    """There is no answer that counts: the run was over, the fetcher stops, or robots.txt is not known yet.

    No attempt is counted.
    """

    job: Job
    delay_s: float = 0.0
    reason: str = ""
    slot_used: bool = False  # a request was written in its slot all the same


@dataclass(frozen=True, kw_only=True, slots=True)
class Disallowed:
    """robots.txt disallows the request: it is never written, and that is no attempt."""

    job: Job
    error: str


Event = Answer | Failure | Snoozed | Disallowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What is stored for one fetch; the fields are the columns of sql/store.sql."""

    fetch_id: int
    slot_id: int
    state: State
    attempted: bool = True
    slot_used: bool = True
    delay_s: float = 0.0
    error: str = ""
    status_code: int | None = None
    headers: str | None = None
    etag: str = ""
    last_modified: str = ""
    lateness_ms: float | None = None
    elapsed_ms: float | None = None
    hop_url: str | None = None
    hop_host: str | None = None
    content: bytes | None = None
    unchanged_from: int | None = None
    is_lost: bool = False  # holds only as long as its lease has run out
