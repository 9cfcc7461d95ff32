"""Fetch way: the steps of one fetch in the order of time, as far as its rows show them, and the beginning of its body.

Each attempt overwrites the times of the one before it: the times from the slot on are those of the last attempt. The
time at which the connection was opened is not stored. The steps of an attempt in flight are not known before its
outcome is stored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.fetches.access_tokens.tokens import WAITS
from weir.workers.fetches.enqueue import webhooks
from weir.workers.fetches.models import FINAL, HELD, FetchState
from weir.workers.fetches.reports.preview import MOST, BodyPreview, preview
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch, awaits_effect


class FetchOnItsWay(NamedTuple):
    """A fetch with its slot and the beginning of its body (sql/fetch_way.sql)."""

    id: int
    url: str
    hop_url: str
    redirects: int
    state: str
    site: str
    priority: int
    share: str
    reference: str
    attempts: int
    max_attempts: int
    method: str
    max_redirects: int
    redirect_chain: list[list[Any]] | None  # [status, URL] of each redirect
    idempotency_key: UUID | None
    request_body_bytes: int | None
    status_code: int | None
    error: str
    request_headers: dict[str, str] | None
    headers: object
    is_robots: bool
    token_client: str
    endpoint_id: int | None  # to which it is a webhook
    effect_id: int | None  # its request is made once
    created_at: datetime
    not_before: datetime
    due_since: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    lateness_ms: float | None
    elapsed_ms: float | None
    on_done: str
    on_done_called_at: datetime | None
    on_done_again_at: datetime | None
    unchanged_from: int | None
    incomplete: str
    correlation_id: str
    claimed_by: str
    batch: str
    batch_id: int | None
    slot_at: datetime | None
    reserved_at: datetime | None
    claimed_at: datetime | None
    body_bytes: int | None
    body: bytes | None  # its beginning; None without a body, and if a storage has it
    body_is_deleted: bool  # by its retention
    body_storage: str  # "" if PostgreSQL has it
    body_headers: object  # that came with the body: `headers`, unless they are those of a 304
    now: datetime

    @property
    def waits_until(self) -> str:
        """Return what the queued fetch waits for, if it has no time at which it is due; "" otherwise."""
        if webhooks.is_held(self.endpoint_id, self.not_before):
            return "its endpoint is resumed"
        return "it is known what became of its effect" if awaits_effect(self.effect_id, self.not_before) else ""

    @property
    def due_at(self) -> datetime | None:
        """Return when the fetch is, or was, due; None if nobody knows."""
        return None if self.waits_until else self.due_since or self.not_before


FETCH_WAY = Statement("fetch_way", row=FetchOnItsWay, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class WayStep:
    """Something that happened to the fetch, or is expected to happen."""

    kind: str
    at: datetime | None  # None: not known yet
    text: str = ""
    is_expected: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchWay:
    """One fetch, at the moment at which the database was asked."""

    fetch: FetchOnItsWay
    steps: Sequence[WayStep]  # in the order of time; steps that have no time yet come last
    preview: BodyPreview | None  # None without a body


def fetch_way(fetch_id: int) -> FetchWay:
    """Return the way of this fetch. Reads only: one query, with up to 64 KiB of the body. Raises UnknownFetch."""
    rows = FETCH_WAY(fetch=fetch_id, most=MOST)
    if not rows:
        raise UnknownFetch(fetch_id)
    [row] = rows
    steps = sorted(_steps(row), key=lambda step: (step.at is None, step.at or row.now))
    shown = None if row.body is None else preview(bytes(row.body), row.body_bytes or 0, row.body_headers)
    return FetchWay(fetch=row, steps=steps, preview=shown)


def _steps(row: FetchOnItsWay) -> Iterator[WayStep]:
    yield WayStep(kind="queued", at=row.created_at)
    yield from _due(row)
    yield from _slot(row)
    yield from _attempt(row)
    if row.finished_at is not None:
        yield WayStep(kind="finished", at=row.finished_at, text=row.state)
    yield from _on_done(row)


def _due(row: FetchOnItsWay) -> Iterator[WayStep]:
    if row.due_since is not None:
        waits_for = "access token" if row.error.startswith(WAITS) else "robots.txt"
        yield WayStep(
            kind="due", at=row.due_since, text=f"it waits for its {waits_for}", is_expected=row.due_since > row.now
        )
        yield WayStep(kind=waits_for, at=row.not_before, text="it is due again", is_expected=row.not_before > row.now)
        return
    if row.waits_until:
        yield WayStep(kind="due", at=None, text=f"when {row.waits_until}", is_expected=True)
        return
    again = "again" if row.state == FetchState.QUEUED and row.attempts else ""
    yield WayStep(kind="due", at=row.not_before, text=again, is_expected=row.not_before > row.now)


def _slot(row: FetchOnItsWay) -> Iterator[WayStep]:
    if row.slot_at is None:
        return
    yield WayStep(kind="reserved", at=row.reserved_at)
    if row.claimed_at is not None and row.state != FetchState.RESERVED:
        yield WayStep(kind="claimed", at=row.claimed_at, text=row.claimed_by)
    yield WayStep(kind="slot", at=row.slot_at, text="its planned start", is_expected=row.slot_at > row.now)


def _attempt(row: FetchOnItsWay) -> Iterator[WayStep]:
    """Yield, of the last attempt with an outcome, when its request was written, and when its answer had come."""
    if row.started_at is None:
        return
    earlier = "in an earlier attempt" if row.state in HELD or (row.state == FetchState.QUEUED and row.attempts) else ""
    late = f"{row.lateness_ms:.1f} ms after its slot" if row.lateness_ms is not None else ""
    yield WayStep(kind="started", at=row.started_at, text=", ".join(filter(None, (late, earlier))))
    if row.elapsed_ms is not None:
        status = f"status {row.status_code}" if row.status_code else ""
        at = row.started_at + timedelta(milliseconds=row.elapsed_ms)
        yield WayStep(kind="answered", at=at, text=", ".join(filter(None, (status, earlier))))


def _on_done(row: FetchOnItsWay) -> Iterator[WayStep]:
    if not row.on_done:
        return
    if row.on_done == task_names.KEEP_WATCH:
        yield _judged(row)
    elif row.on_done_again_at is not None:
        text = f"{row.on_done} is called again: the worker that got the call does not know this task"
        yield WayStep(kind="on_done", at=row.on_done_again_at, text=text, is_expected=True)
    elif row.on_done_called_at is not None:
        yield WayStep(kind="on_done", at=row.on_done_called_at, text=f"{row.on_done} is called")
    elif row.state in FINAL:
        yield WayStep(kind="on_done", at=None, text=f"{row.on_done} is called within seconds", is_expected=True)
    else:
        yield WayStep(kind="on_done", at=None, text=f"{row.on_done} is called at the end", is_expected=True)


def _judged(row: FetchOnItsWay) -> WayStep:
    """Return the step of a fetch of a watch: the tick takes its end, and calls nothing with it (enqueue/watched.py)."""
    at, is_final = row.on_done_called_at, row.state in FINAL
    text = "its watch has judged it" if at else f"its watch judges it {'within seconds' if is_final else 'at the end'}"
    return WayStep(kind="watch", at=at, text=text, is_expected=at is None)
