"""on_done: when the end of a fetch is committed, the Celery task that the fetch names is published, at least once.

1. The process that committed the end publishes the task (`call_on_done`), and records that the broker accepted it. If
   CELERY_TASK_ALWAYS_EAGER is set, it runs the task.
2. A call that is not recorded in time was lost. Sweep repeats it (`call_overdue`).
3. A worker that does not know the task stores that in the fetch (unknown.py). Five minutes later, sweep records the
   call as one that was not made (`renew`), and step 2 makes it.
"""

from collections.abc import Iterable
from datetime import timedelta
from itertools import takewhile
from typing import NamedTuple

from django.db.models.functions import Now

from weir.workers import broker_link, task_names
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.on_done.unknown import HEADER
from weir.workers.publish import call
from weir.workers.tracing import correlation

BATCH = 1_000
# A call that has not been recorded after this time was lost, with its process or with the broker.
OVERDUE = timedelta(seconds=30)
MOST_UNKNOWN = 20  # calls of tasks that this process does not know either; a sweep renews no more of them


class Ended(NamedTuple):
    """A fetch that has ended, and the task that it names."""

    fetch: int
    on_done: str
    correlation_id: str


COLUMNS = ("pk", "on_done", "correlation_id")  # columns of Fetch, in the order of the fields of Ended


def call_on_done(ended: Iterable[Ended]) -> None:
    """Publish the task of each fetch, under the fetch's correlation id, and record the calls that the broker accepted.

    Stops at the first call that the broker does not accept, so a broker that hangs costs the caller one time-out.
    `call_overdue` repeats the rest. The fetches of watches are left to the tick that judges them (enqueue/watched.py).
    """
    calls = (each for each in ended if each.on_done != task_names.KEEP_WATCH)
    called = [each.fetch for each in takewhile(_call, calls)]
    if called:
        # Fetches that were retried meanwhile are not updated: their next end needs a call of its own.
        Fetch.objects.filter(pk__in=called, finished_at__isnull=False).update(on_done_called_at=Now())


def _call(ended: Ended) -> bool:
    with correlation.bound(ended.correlation_id):
        return call(ended.on_done, ended.fetch, headers={HEADER: ended.fetch})


def call_overdue() -> int:
    """Repeat the calls that were not recorded in time; returns their number."""
    overdue = list(
        Fetch.objects.filter(finished_at__lt=Now() - OVERDUE, on_done_called_at__isnull=True)
        .exclude(on_done="")
        .exclude(on_done=task_names.KEEP_WATCH)
        .order_by("finished_at")
        .values_list(*COLUMNS)[:BATCH]
    )
    call_on_done(map(Ended._make, overdue))
    return len(overdue)


def renew() -> None:
    """Record as not made the calls of tasks that a worker did not know, when they are due again.

    Tasks that this process knows are called again in batches. Of the others, which a worker may know, only a few are:
    each call of a task that no worker knows makes a worker log an error. Safe to run twice or together.
    """
    due = Fetch.objects.filter(on_done_again_at__lte=Now())
    known = sorted(broker_link.app().tasks)
    of_known = due.filter(on_done__in=known).order_by("on_done", "on_done_again_at")[:BATCH]
    of_others = due.exclude(on_done__in=known).order_by("on_done_again_at")[:MOST_UNKNOWN]
    chosen = [*of_known.values_list("pk", flat=True), *of_others.values_list("pk", flat=True)]
    if chosen:
        due.filter(pk__in=chosen).update(on_done_called_at=None, on_done_again_at=None)
