"""What workers do with the rows of postponed tasks: write, take, hold and give back rows, and delete them at the start.

Each function commits by itself. A message that was published from a row names the row in a header, together with the
number of the task's retries. A later retry inherits the header, but has another number of retries, so it counts as a
new message.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from celery.exceptions import Ignore
from celery.utils.time import maybe_make_aware
from django.db import connection
from django.db.models.functions import Now
from kombu.utils import json

from weir.postgres.statements import Statement
from weir.ratelimit import clock
from weir.ratelimit.pacing import HAND_OVER_MARGIN_S
from weir.workers.throttled.models import PostponedTask

if TYPE_CHECKING:
    from celery import Task

HEADER = "weir_postponed"
# Seconds after `max_wait` after which a worker that holds a task counts as lost, and the task is published again.
SILENCE = 30.0


class TakenTask(NamedTuple):
    """A task whose row this worker holds now."""

    host: str
    not_before: datetime


START: Statement[float | None] = Statement("start", returns=float, commits=True, prepare=True)
TAKE = Statement("take", row=TakenTask, commits=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldRow:
    """A row that this worker holds: no other worker starts its task while the lease lasts."""

    row: int
    token: UUID
    host: str
    not_before: datetime


def named_row(headers: Mapping[str, Any] | None, retries: object) -> int | None:
    """Return the row from which a message with these headers was published; None for a new message."""
    match (headers or {}).get(HEADER):
        case [int(row), published_retries] if published_retries == retries:
            return row
    return None


def take(row: int, max_wait: float, *, redelivered: bool = False) -> HeldRow | None:
    """Hold the row for as long as this worker may wait; return None if it is gone, or another worker holds it.

    If the broker delivers a message again (`redelivered`), this takes the row from the worker that got it before.
    """
    token = uuid4()
    parameters = {"row": row, "token": token, "seconds": max_wait + SILENCE, "redelivered": redelivered}
    rows = TAKE(**parameters)
    return HeldRow(row=row, token=token, host=rows[0].host, not_before=rows[0].not_before) if rows else None


def hold(task: "Task[Any, Any]", host: str, site: str, max_wait: float, not_before: datetime | None) -> HeldRow:
    """Write the row of a task that this worker holds, while it waits for the task's slot at the site of the host."""
    token = uuid4()
    row = PostponedTask.objects.create(
        **_fields(task, host, site, max_wait, not_before),
        published_at=Now(),
        held_by=token,
        lease_until=Now() + timedelta(seconds=max_wait + SILENCE),
    )
    row.refresh_from_db(fields=["not_before"])
    return HeldRow(row=row.pk, token=token, host=host, not_before=row.not_before)


def queue(task: "Task[Any, Any]", host: str, site: str, max_wait: float, not_before: datetime | None) -> None:
    """Write the row of a task that waits in PostgreSQL until it is published (`weir.workers.throttled.publishing`)."""
    PostponedTask.objects.create(**_fields(task, host, site, max_wait, not_before))


def others_wait(site: str) -> bool:
    """Return whether tasks of the site wait in PostgreSQL: a later task must not start before them."""
    return PostponedTask.objects.waiting().filter(site=site).exists()


def start(place: HeldRow, slot: int) -> bool:
    """Delete the row, because its task starts in this slot. Return False if that took so long that the slot is over.

    Raises Ignore if this worker no longer holds the row: the task was cancelled, or taken back after its lease.
    """
    asked_at = clock.now()
    started = START(row=place.row, token=place.token, slot=slot)
    if not started:
        raise Ignore
    [use_until_s] = started  # None if the slot is gone
    return use_until_s is not None and clock.now() + HAND_OVER_MARGIN_S <= asked_at + use_until_s


def give_back(place: HeldRow, site: str) -> None:
    """Let the task wait in PostgreSQL again, at its old place in the queue of `site`, its host's present site."""
    PostponedTask.objects.filter(pk=place.row, held_by=place.token).update(
        site=site, published_at=None, held_by=None, lease_until=None
    )


def drop(place: HeldRow) -> None:
    """Delete the row of a task that failed while it waited."""
    PostponedTask.objects.filter(pk=place.row, held_by=place.token).delete()


def forget(row: int) -> None:
    """Delete the row of a message that a worker discarded, because the task was revoked or has expired."""
    with _own_connection():
        PostponedTask.objects.filter(pk=row).delete()


def lose(row: int) -> None:
    """Let the task be published again, because the worker that got its message has no code for it."""
    with _own_connection():
        PostponedTask.objects.filter(pk=row, published_at__isnull=False, held_by=None).update(lease_until=Now())


@contextmanager
def _own_connection() -> Iterator[None]:
    """Close the connection after the block: in a worker's parent process, nothing would replace a broken one."""
    try:
        yield
    finally:
        connection.close()


def _fields(
    task: "Task[Any, Any]", host: str, site: str, max_wait: float, not_before: datetime | None
) -> dict[str, Any]:
    request = task.request
    kept = {name: request.get(name) for name in ("argsrepr", "kwargsrepr")}  # these may hide secrets
    if "ignore_result" in vars(request):  # from 5.7 on, Celery keeps it in the request
        kept["ignore_result"] = request.ignore_result
    return {
        "host": host,
        "site": site,
        "task": task.name,
        "signature": json.dumps(task.signature_from_request(**kept)),
        "max_wait": max_wait,
        "expires_at": request.expires and _storable(datetime.fromisoformat(str(request.expires))),
        **({"not_before": not_before} if not_before else {}),
    }


def _storable(expires: datetime) -> datetime | None:
    """Return Celery's `expires` in UTC; None for a time after the year 9999, which is never reached (moments.py)."""
    try:
        return maybe_make_aware(expires, UTC).astimezone(UTC)
    except OverflowError:
        return None
