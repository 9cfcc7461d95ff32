"""The data of one attempt, stage by stage: the Job that is claimed, the Event in which it ends, the FetchOutcome.

Also the lease: for how long after its slot a fetcher may hold a fetch, and how much of that time is for the answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from uuid import UUID

from weir.conf import settings
from weir.conf.oauth_clients import OAuthClient
from weir.ratelimit.pacing import Run
from weir.workers.effects.performing.held import HeldEffect, SettledEffect
from weir.workers.fetches.bodies.spilled import SpilledBody
from weir.workers.fetches.bodies.storage import StoredFile
from weir.workers.fetches.bodies.validators import Validators
from weir.workers.fetches.held_tokens import LONGEST_ANSWER, HeldToken, RefusedToken, TokenReading
from weir.workers.fetches.methods import USUAL_REDIRECTS
from weir.workers.fetches.models import FetchState
from weir.workers.tracing import correlation

# Seconds beyond all deadlines of a fetch before its holder counts as dead: time for storing the result.
STORING = 10.0
LONGEST_RECEIPT: Final = 65_536  # bytes of what the receiver of a webhook says, of which nothing is stored
TO_ALL: Final = frozenset({"accept", "accept-language", "if-range", "range", "user-agent"})  # sent to any origin


@dataclass(eq=False, slots=True)
class HeldBody:
    """The body of a request, in the memory of a fetcher until its job ends (fetcher/request_bodies.py)."""

    content: bytes


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
    start_at: float  # this process' clock (ratelimit/clock.py)
    run: Run  # shared by the jobs of one site in one message
    concurrency: asyncio.Semaphore | None = None  # how many jobs of the run may be in flight; None = any number
    validators: Validators | None = None
    is_robots: bool = False  # a robots.txt that Weir itself asks for
    obeys_robots: bool = False  # it is requested only if the robots.txt of its origin allows the URL
    refusing: tuple[int, ...] | None = None  # statuses with which its site refuses requests; None = the usual ones
    is_silent: bool = False  # its site has answered nothing since its last refusal
    correlation_id: str = ""  # of the web request or task that asked for the fetch
    traceparent: str = ""  # the span that asked for the fetch
    first_url: str = ""  # the URL as it was asked for, if the fetch was redirected
    losses: int = 0  # how often the fetch was lost with a fetcher
    # The headers of the request that were set for the site, and for the fetch, with placeholders of secrets.
    site_headers: Mapping[str, str] = field(default_factory=dict)
    site_query: Mapping[str, str] = field(default_factory=dict)  # parameters that each URL of the site gets
    request_headers: Mapping[str, str] = field(default_factory=dict)
    site_network: Mapping[str, str] | None = None  # how the site is reached; None: directly, as the system trusts
    has_left_origin: bool = False  # a redirect has led to another origin than that of the URL that was asked for
    method: str = "GET"  # as it is sent
    has_become_get: bool = False  # a redirect has turned another method into GET
    body: HeldBody | None = None
    idempotency_key: UUID | None = None
    max_redirects: int = USUAL_REDIRECTS
    was_sent: bool = False  # perhaps: an earlier request of it was written, or lost with a fetcher
    was_unauthorized: bool = False  # its last answer was a 401
    tokens: Mapping[str, HeldToken] = field(default_factory=dict)  # those that its headers name, by their clients
    # For a request for an access token, which Weir itself makes: the client's name, the token's key, and the client.
    token_client: str = ""
    token_key: UUID | None = None
    client: OAuthClient | None = None
    endpoint_id: int | None = None  # of the webhooks that it is one of
    effect_id: int | None = None  # its request is made once
    effect: HeldEffect | None = None  # the same, from once/gate.py on

    def given_headers(self) -> dict[str, str]:
        """Return the headers of the site, and of the fetch, that are sent, wherever redirects have led.

        Those of the fetch replace the site's, whatever the case of their names. Once a redirect has led to another
        origin, only the headers of TO_ALL are sent, as browsers do (https://fetch.spec.whatwg.org/): that origin may
        redirect back, to a URL of its choice. Once a redirect has turned the method into GET, no headers of the body
        are sent.
        """
        key = {"Idempotency-Key": str(self.idempotency_key)} if self.idempotency_key else {}
        own = {name.lower() for name in (*self.request_headers, *key)}
        of_site = {name: value for name, value in self.site_headers.items() if name.lower() not in own}
        given = {**of_site, **self.request_headers, **key}
        return {name: value for name, value in given.items() if self._goes_along(name.lower())}

    def _goes_along(self, name: str) -> bool:
        if self.has_become_get and (name.startswith("content-") or name == "idempotency-key"):
            return False
        return not self.has_left_origin or name in TO_ALL

    @property
    def is_last(self) -> bool:
        """Return whether no attempt is left after this one."""
        return self.attempts + 1 >= self.max_attempts

    @property
    def most_body(self) -> int:
        """Return how many bytes the body of its answer may have."""
        if self.endpoint_id is not None:
            return LONGEST_RECEIPT
        return LONGEST_ANSWER if self.token_client else settings.WEIR_FETCH_MAX_BODY

    @property
    def body_content(self) -> bytes:
        """Return the body of its request; empty without one."""
        return self.body.content if self.body else b""

    @property
    def named(self) -> dict[str, object]:
        """The keys that identify the fetch in a log line about its batch, which has no correlation id of its own."""
        return _named(self.fetch_id, self.correlation_id)


@dataclass(eq=False, kw_only=True, slots=True)
class HeldBytes:
    """Bytes of a fetcher's memory that one answer holds, and for which it waits (fetcher/room/memory.py)."""

    site_id: int
    size: int = 0
    wanted: int | None = None  # the total for which the answer waits; None if it does not wait
    go_on: Callable[[], None] | None = None  # called when the answer no longer waits
    place: int = 0  # the answer's place among all that have ever waited; it keeps the place if it waits again
    is_on_disk: bool = False  # the bytes are in a temporary file


class Flaw(Enum):
    """What is wrong with the body of an answer."""

    NONE = "none"
    ODD = "odd"  # the body is accepted, though its header says otherwise
    CUT = "cut"  # the body ends too early
    BROKEN = "broken"
    TOO_LARGE = "too large"
    TOO_LONG = "too long"  # decompressing it takes longer than is allowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer whose head came, with all of its body, or the beginning, still encoded as on the wire."""

    job: Job
    status_code: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = field(repr=False)
    lateness_ms: float
    elapsed_ms: float
    flaw: Flaw = Flaw.NONE  # NONE; CUT; or TOO_LARGE: the fetcher stopped reading, because more came than is allowed
    reason: str = ""  # the flaw in words; empty if there is none, or the body itself is too large
    held: HeldBytes | None = None  # the memory that the answer holds until it is stored
    spilled: SpilledBody | None = None  # the beginning of the body, before `body`, if the body is large
    spilled_bytes: HeldBytes | None = None  # the room on the disk that it holds until the answer is stored

    @property
    def all_held(self) -> list[HeldBytes]:
        """Return what the answer holds until it is stored."""
        return [held for held in (self.held, self.spilled_bytes) if held is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """No whole answer came."""

    job: Job
    error: str
    permanent: bool = False
    lateness_ms: float | None = None  # None: the request was not written, its slot is unused
    elapsed_ms: float | None = None
    slot_used: bool = False  # true if the request was written, but its times are not known
    not_before_s: float = 0.0  # seconds until another attempt may succeed
    is_refused: bool = False  # the request was written, and its answer says that nobody has acted on it

    @property
    def is_forbidden(self) -> bool:
        """Return whether the settings forbid the request: it was not written, and never will be."""
        return self.permanent and not self.slot_used and self.lateness_ms is None

    @property
    def is_last(self) -> bool:
        """Return whether no attempt is left."""
        return self.permanent or self.job.is_last


@dataclass(frozen=True, kw_only=True, slots=True)
class Snoozed:
    """The fetch goes back to the queue: its run was over, the fetcher stops, or it waits for its robots.txt or a token.

    No attempt is counted.
    """

    job: Job
    delay_s: float = 0.0  # the longest time for which it waits for something; it keeps its place in the queue
    reason: str = ""
    awaited_token: UUID | None = None  # the key of the access token for which it waits, and for no robots.txt
    slot_used: bool = False  # true if a request was written in its slot, but no answer counts
    lateness_ms: float | None = None  # of that request, if the site has closed the connection
    not_before_s: float = 0.0  # seconds until it is due again


@dataclass(frozen=True, kw_only=True, slots=True)
class Disallowed:
    """The robots.txt of the origin disallows the request, which is never written. No attempt is counted."""

    job: Job
    error: str


Event = Answer | Failure | Snoozed | Disallowed


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchOutcome:
    """What is stored for one fetch; the fields that COLUMNS names are the columns of sql/store.sql."""

    fetch_id: int
    slot_id: int
    state: FetchState
    attempted: bool = True
    slot_used: bool = True
    delay_s: float = 0.0
    error: str = ""
    log_error: str = ""  # the error without URLs, for the log; empty if `error` has no part of a URL's path or query
    status_code: int | None = None
    headers: str | None = None
    etag: str = ""
    last_modified: str = ""
    lateness_ms: float | None = None
    elapsed_ms: float | None = None
    hop_url: str | None = None
    hop_host: str | None = None
    has_left_origin: bool = False  # the redirect leads to another origin
    has_become_get: bool = False  # the redirect turns the method into GET
    content: bytes | None = None
    stored_file: StoredFile | None = None  # has the body in place of `content`
    incomplete: str = ""  # why `content` is not the whole body, or not what its headers say
    unchanged_from: int | None = None
    waits_for_robots: bool = False  # the fetch keeps its place in the queue, and is woken when its robots.txt is known
    awaited_token: UUID | None = None  # the same for an access token of this key; `error` names the client
    is_lost: bool = False  # set by sweep: the outcome is stored only if the lease is over at that moment, too
    is_forbidden: bool = False  # the settings forbid connecting to the origin of the fetch's own URL
    leads_nowhere: bool = False  # the fetch was redirected to something that is not a URL, or too often
    ends_silence: bool = False  # its site was silent, and has answered
    correlation_id: str = ""  # of the web request or task that asked for the fetch, if that is known
    token: TokenReading | None = None  # of a request for an access token that has ended
    refused_tokens: tuple[RefusedToken, ...] = ()  # the tokens of a request that was answered 401
    effect: SettledEffect | None = None  # what becomes of the effect of a request that is made once

    @property
    def keeps_place(self) -> bool:
        return self.waits_for_robots or self.awaited_token is not None

    @property
    def named(self) -> dict[str, object]:
        """The keys that identify the fetch in a log line, as in `Job.named`."""
        return _named(self.fetch_id, self.correlation_id)


def _named(fetch_id: int, correlation_id: str) -> dict[str, object]:
    return {"fetch": fetch_id, **({correlation.KEY: correlation_id} if correlation_id else {})}


def longest_hold_s() -> float:
    """Return how many seconds after its slot a fetcher may still hold a fetch: all deadlines, and storing."""
    return longest_answer_s() + STORING


def longest_answer_s() -> float:
    """Return how many seconds after its slot a fetch must have its answer, so that it can be stored in time."""
    deadlines = (
        settings.WEIR_FETCH_DNS_TIMEOUT,
        settings.WEIR_FETCH_CONNECT_TIMEOUT,
        settings.WEIR_FETCH_TIMEOUT,
    )
    return float(sum(deadlines))
