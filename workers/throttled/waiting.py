"""What a worker does with the message of a throttled task: it waits for the slot, or postpones the task.

1. If the message was published from a row, the worker takes the row. If the row is gone, or another worker holds it,
   the message is a second one, and is ignored.
2. For a new message, the worker asks for a slot within AT_ONCE seconds. Most tasks start this way, without a row.
3. If the slot is farther away, but within `max_wait`, the worker writes a row that it holds, and waits on. If it is
   killed, the row's lease runs out, and the task is published again.
4. If the slot is farther away than that, or other tasks of the site wait in PostgreSQL already, the worker writes a
   row that waits, and drops the message (celery.exceptions.Ignore).
5. In the slot, the worker deletes the row that it holds. If that took so long that the slot is over, it waits for
   another slot.

No lock and no transaction is held during a wait.
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

AT_ONCE = 1.0  # seconds: no row is written for a shorter wait
STARTED = "_throttled_start"  # an attribute of a request whose task has begun


def is_for_a_message(request: Context) -> bool:
    """Return whether a worker runs the task for its message; otherwise code has called it, and gets its errors."""
    return not (request.called_directly or request.is_eager or request.get(STARTED))


@contextmanager
def slot_for_message(task: "Task[Any, Any]", site_of: Callable[[], str], max_wait: float) -> Iterator[None]:
    """Wait for a slot for the message that the task is run for; the body runs in it.

    Raises Ignore if the task was postponed, or its message is a second one.
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
    """Take the row from which the task's message was published, if any; raises Ignore if it cannot be taken."""
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
    return place  # None: a worker that had started the task was killed, and with acks_late the task is run again


def _enter(slot: ExitStack, host: str, max_wait: float, place: HeldRow | None) -> int:
    """Wait for a slot, and return its id.

    An error fails the task, and deletes its row. After a database error, the row cannot be deleted: the message is
    dropped (Ignore), and the task is published again when the row's lease is over.
    """
    try:
        # The row of a task is deleted before the task begins, which takes a round trip.
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
    """Return the place with which this worker waits on; raises Ignore if the task is postponed instead.

    `names` are those of the host, and of the site at which its slot is.
    """
    host, site = names
    if place:  # other processes have reserved at the site since the message was published
        postponing.give_back(place, site)
        raise Ignore
    if waits_here and not postponing.others_wait(site):
        return postponing.hold(task, host, site, max_wait, not_before)
    postponing.queue(task, host, site, max_wait, not_before)
    raise Ignore
