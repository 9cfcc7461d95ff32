"""What a worker does with the message of a throttled task: it waits for the slot, or postpones the task.

1. If the message was published from a row, the worker takes the row. If the row is gone, or another worker holds it,
   the message is a duplicate, and is ignored.
2. For a new message, the worker asks for a slot within AT_ONCE seconds. Most tasks start this way, without a row.
3. If the slot is farther away, but within `max_wait`, the worker writes a row that it holds, and waits on. If it is
   killed, the row's lease runs out, and the task is published again.
4. If the slot is farther away than `max_wait`, or other tasks of the site already wait in PostgreSQL, the worker writes
   a row that waits, and drops the message (celery.exceptions.Ignore).
5. In the slot, the worker deletes the row that it holds. If that takes so long that the slot is over, the worker waits
   for another slot.

A worker holds no lock and no transaction during a wait.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from celery.app.task import Context
from celery.exceptions import Ignore
from django.db import Error

from weir.logs.loggers import get_logger
from weir.ratelimit.slots import SlotTooFar
from weir.ratelimit.throttle import throttle
from weir.workers.throttled import postponing
from weir.workers.throttled.postponing import HeldRow

if TYPE_CHECKING:
    from celery import Task

log = get_logger(__name__)

AT_ONCE = 1.0  # seconds; for a shorter wait, no row is written
STARTED = "_throttled_start"  # an attribute of a request whose task has begun


def is_for_a_message(request: Context) -> bool:
    """Return whether a worker runs the task because of a message; otherwise code has called it, and gets its errors."""
    return not (request.called_directly or request.is_eager or request.get(STARTED))


@contextmanager
def slot_for_message(task: "Task[Any, Any]", site_of: Callable[[], str], max_wait: float) -> Iterator[None]:
    """Wait for a slot for the message of the task; the block runs in the slot.

    Raises Ignore if the task was postponed, or its message is a duplicate.
    """
    give_up_at = time.monotonic() + max_wait
    place = _taken(task, max_wait)
    host, not_before = (place.host, place.not_before) if place else (site_of(), None)
    while True:
        left = max(0.0, give_up_at - time.monotonic())
        with ExitStack() as slot:
            try:
                slot_id = _enter(slot, host, left if place else min(left, AT_ONCE), place)
            except SlotTooFar as too_far:
                names = (host, too_far.site)
                waits_here = too_far.retry_after <= left
                place = _wait_or_postpone(task, names, max_wait, place, not_before, waits_here=waits_here)
                continue
            if place is None or postponing.start(place, slot_id):
                task.request.update({STARTED: True})
                yield
                return
        place = None  # the row is deleted, but the slot is over


def _taken(task: "Task[Any, Any]", max_wait: float) -> HeldRow | None:
    """Take the row from which the message was published, if there is one; raise Ignore if it cannot be taken."""
    row = postponing.named_row(task.request.headers, task.request.retries)
    if row is None:
        return None
    redelivered = bool((task.request.delivery_info or {}).get("redelivered"))
    try:
        place = postponing.take(row, max_wait, redelivered=redelivered)
    except Error as error:
        log.warning("postponed_task_left_to_its_row", row=row, error=str(error))
        raise Ignore from error
    if place is None and not (task.acks_late and redelivered):
        raise Ignore
    return place  # None with acks_late: a worker was killed after the start, and the task runs again


def _enter(slot: ExitStack, host: str, max_wait: float, place: HeldRow | None) -> int:
    """Wait for a slot, and return its id.

    After an error, the task fails, and its row is deleted. After a database error the row cannot be deleted, so the
    message is dropped (Ignore), and the task is published again when the row's lease is over.
    """
    try:
        # Not with a row: its deletion before the task begins takes a round trip.
        return slot.enter_context(throttle(host, max_wait, shares_runs=place is None))
    except SlotTooFar:
        raise
    except Error as error:
        if place is None:
            raise
        log.warning("postponed_task_left_to_its_row", row=place.row, error=str(error))
        raise Ignore from error
    except Exception:
        if place:
            postponing.drop(place)
        raise


def _wait_or_postpone(
    task: "Task[Any, Any]",
    names: tuple[str, str],
    max_wait: float,
    place: HeldRow | None,
    not_before: datetime | None,
    *,
    waits_here: bool,
) -> HeldRow:
    """Return the row that this worker holds while it goes on waiting; raise Ignore if the task is postponed instead.

    `names` has the names of the host and of the site whose slot is too far away.
    """
    host, site = names
    if place:  # since the message was published, other processes have reserved at the site
        postponing.give_back(place, site)
        raise Ignore
    if waits_here and not postponing.others_wait(site):
        return postponing.hold(task, host, site, max_wait, not_before)
    postponing.queue(task, host, site, max_wait, not_before)
    raise Ignore
