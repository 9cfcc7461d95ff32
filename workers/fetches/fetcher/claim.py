"""Claiming: a fetcher takes the fetches of one message's slots, each once, and the successors of cancelled fetches."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from django.db import Error, connection

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres import moments, sessions
from weir.postgres.statements import Statement
from weir.ratelimit import clock, round_trips
from weir.ratelimit.pacing import Confirmation, Run
from weir.ratelimit.slots import unreserve
from weir.workers.fetches import backlog
from weir.workers.fetches.bodies.keeping import body_retention_s
from weir.workers.fetches.bodies.validators import Validators
from weir.workers.fetches.fetcher.parts import TURN_S, FetcherPart, database_patience_s, take_turn
from weir.workers.fetches.jobs import Job, longest_hold_s
from weir.workers.processes import presence

log = get_logger(__name__)
Result = TypeVar("Result")


class ClaimedFetch(NamedTuple):
    """A fetch that had one of the message's slots: this process holds it if it is `usable`; else it is queued again."""

    id: int
    url: str
    redirects: int
    attempts: int
    max_attempts: int
    is_robots: bool
    obeys_robots: bool
    slot_id: int
    start_time: datetime
    start_until: datetime
    use_until: datetime
    at_once: int | None
    site_id: int
    site: str
    interval_s: float
    burst: int
    refusing: list[int] | None
    is_silent: bool
    usable: bool
    good_id: int | None  # the last good result, to be revalidated
    etag: str
    last_modified: str
    correlation_id: str
    traceparent: str
    first_url: str  # empty if the fetch was not redirected
    losses: int
    site_headers: dict[str, str]
    site_query: dict[str, str]
    request_headers: dict[str, str]
    has_left_origin: bool
    method: str
    has_become_get: bool
    idempotency_key: UUID | None
    max_redirects: int
    was_sent: bool
    was_unauthorized: bool
    token_client: str  # empty unless Weir itself asks for an access token
    token_key: UUID | None
    endpoint_id: int | None
    site_network: dict[str, str] | None
    effect_id: int | None  # no successor has one: each is a GET (cancel.sql)


class Successor(NamedTuple):
    """The fetch that got the slot of a cancelled fetch."""

    slot_id: int
    id: int
    url: str
    redirects: int
    attempts: int
    max_attempts: int
    passed_on_at: datetime
    is_robots: bool
    obeys_robots: bool
    correlation_id: str
    traceparent: str
    first_url: str  # empty if the fetch was not redirected
    losses: int
    site_headers: dict[str, str]
    site_query: dict[str, str]
    request_headers: dict[str, str]
    has_left_origin: bool
    method: str
    has_become_get: bool
    idempotency_key: UUID | None
    max_redirects: int
    was_sent: bool
    was_unauthorized: bool
    token_client: str  # empty unless Weir itself asks for an access token
    token_key: UUID | None
    endpoint_id: int | None


OF_FETCH: Final = (
    "url", "redirects", "attempts", "max_attempts", "is_robots", "obeys_robots", "correlation_id", "traceparent",
    "first_url", "losses", "site_headers", "site_query", "request_headers", "has_left_origin", "has_become_get",
    "idempotency_key", "max_redirects", "was_sent", "was_unauthorized", "token_client", "token_key", "endpoint_id",
)  # fmt: skip
# What Weir itself asks for, a robots.txt or an access token, is sent without a site's headers, and needs no consent.
OF_OWN: Final[Mapping[str, Any]] = {"obeys_robots": False, "site_headers": {}, "site_query": {}, "request_headers": {}}
CLAIM = Statement("claim", row=ClaimedFetch, commits=True)
SUCCESSORS = Statement("successors", row=Successor, commits=True)


def claim(slot_ids: list[int], confirmation: Confirmation) -> list[Job]:
    """Claim the fetches that are still reserved in these slots; returns their jobs in the order of starts.

    The fetches belong to this process until their leases run out; their runs use `confirmation`. Starts and deadlines
    are differences between two times of the database's clock. A round trip that only reads this clock ties them to the
    clock of the process: starts are counted from the end of the round trip, deadlines from its beginning.
    """
    connection.ensure_connection()  # connecting is not to be measured
    asked_at = clock.now()
    database_now = moments.now()
    answered_at = clock.now()
    round_trips.of_process.note(answered_at - asked_at)
    # After the clock: if a query failed after the claim, the fetches would be held for nothing until their lease ends.
    rows = _claimed(slot_ids)
    runs: dict[tuple[int, datetime], tuple[Run, asyncio.Semaphore | None]] = {}
    jobs = []
    for row in (row for row in rows if row.usable):
        key = (row.site_id, row.use_until)
        if key not in runs:
            run = Run(
                interval_s=row.interval_s,
                burst=row.burst,
                start_until=asked_at + (row.start_until - database_now).total_seconds(),
                use_until=asked_at + (row.use_until - database_now).total_seconds(),
                confirmation=confirmation,
            )
            runs[key] = (run, None if row.at_once is None else asyncio.Semaphore(row.at_once))
        run, concurrency = runs[key]
        jobs.append(
            Job(
                site_id=row.site_id,
                site=row.site,
                slot_id=row.slot_id,
                start_at=answered_at + (row.start_time - database_now).total_seconds(),
                run=run,
                concurrency=concurrency,
                validators=_validators(row),
                refusing=None if row.refusing is None else tuple(row.refusing),
                is_silent=row.is_silent,
                site_network=row.site_network,
                effect_id=row.effect_id,
                **_of_fetch(row),
            )
        )
    try:
        backlog.activate(row.site_id for row in rows if not row.usable)
        unreserve(row.slot_id for row in rows if not row.usable)
    except Error:  # the jobs are claimed and must not be dropped; sweep finds sites that were overlooked
        log.exception("late_slots_not_released")
    return jobs


def _validators(row: ClaimedFetch) -> Validators | None:
    """Return the validators if any can be sent: without them, a 304 says nothing about an earlier result."""
    if row.good_id is None:
        return None
    validators = Validators(fetch_id=row.good_id, etag=row.etag, last_modified=row.last_modified)
    return validators if validators.headers() else None


def _claimed(slot_ids: list[int]) -> list[ClaimedFetch]:
    """Claim, and claim again if a slot's fetch is missing: the slot may have a successor by now.

    A successor gets no message of its own.
    """
    parameters = {
        "slots": slot_ids,
        "lease": longest_hold_s(),
        "retention": body_retention_s(),
        "obey": settings.WEIR_OBEY_ROBOTS,
        "process": presence.current_id(),
        "added_grace": round_trips.added_grace_s(round_trips.of_process.expected_s()),
    }
    rows = CLAIM(**parameters)
    if len(rows) < len(slot_ids):
        try:
            rows += CLAIM(**parameters)
        except Error:  # as in `claim`; sweep takes the successors back
            log.exception("successors_not_claimed")
    return sorted(rows, key=attrgetter("start_time", "slot_id"))


def successors_of(jobs: Iterable[Job]) -> list[tuple[Job, datetime]]:
    """Return the successors that have the slots of these cancelled jobs, each with the time since which it has one.

    One round trip, for any number of jobs. Jobs without a successor are not in the list.
    """
    by_slot = {job.slot_id: job for job in jobs}
    rows = SUCCESSORS(slots=[*by_slot], obey=settings.WEIR_OBEY_ROBOTS)
    return [(_following(by_slot[row.slot_id], row), row.passed_on_at) for row in rows]


def _following(job: Job, row: Successor) -> Job:
    return replace(job, validators=None, body=None, tokens={}, client=None, **_of_fetch(row))


def _of_fetch(row: ClaimedFetch | Successor) -> dict[str, Any]:
    """Return the fields of a job that come from its fetch, and from the settings of its site for this fetch."""
    named = {name: getattr(row, name) for name in OF_FETCH}
    own = OF_OWN if row.is_robots or row.token_client else {}
    return {"fetch_id": row.id, "method": "GET" if row.has_become_get else row.method, **named, **own}


class Claimer:
    """The part of the fetcher that claims for all messages, on one connection of its own.

    Celery closes the connections of its own threads after each task, and a new connection costs more than a claim.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.part = FetcherPart("claimer", self._work, patience_s=database_patience_s())

    def submit(self, do: Callable[..., Result], *arguments: object, **options: object) -> "Future[Result]":
        """Let the claimer's thread call `do`; returns the future of its result or error."""
        result: Future[Result] = Future()

        def call() -> None:
            try:
                result.set_result(do(*arguments, **options))
            except Exception as error:  # noqa: BLE001  the caller gets it
                result.set_exception(error)

        self._calls.put(call)
        return result

    def leave(self, do: Callable[..., None], *arguments: object, **options: object) -> None:
        """Let the claimer's thread call `do`. No caller waits for it: an error in it ends the process."""
        self._calls.put(partial(do, *arguments, **options))

    def close(self, timeout: float) -> bool:
        """Make the calls that are left, and end; returns False when that takes longer than `timeout` seconds."""
        self._calls.put(None)
        return self.part.join(timeout)

    def _work(self) -> None:
        while True:
            take_turn()
            try:
                call = self._calls.get(timeout=TURN_S)
            except Empty:
                continue
            if call is None:
                break
            call()
        connection.close()


def reconnecting(do: Callable[..., Result], *arguments: object) -> Result:
    """Call `do`; if a statement fails, call it once more on a new connection.

    Any database error may come from the connection: a connection to a primary that was demoted can only read.
    """
    try:
        return do(*arguments)
    except Error:
        sessions.leave(connection)
        take_turn()  # the statement may have taken all of its time-out
        return do(*arguments)
