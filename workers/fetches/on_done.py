"""on_done: when the end of a fetch is committed, the Celery task that it names is published, at least once.

1. The process that committed the end publishes the task (`call_on_done`), and notes that the broker took it.
2. A call that is not noted in time was lost. Sweep repeats it (`call_overdue`).
"""

from collections.abc import Iterable
from datetime import timedelta
from itertools import takewhile

from django.db.models.functions import Now

from workers.fetches.models import Fetch
from workers.publish import publish

BATCH = 1_000
# A call that has not been noted after this time was lost, with its process or with the broker.
OVERDUE = timedelta(seconds=30)


def call_on_done(ended: Iterable[tuple[int, str]]) -> None:
    """Publish the task of each (fetch id, task name), and note those that the broker took.

    Stops at the first that the broker did not take: one that hangs costs the caller one time-out. `call_overdue`
    repeats the rest.
    """
    called = [fetch_id for fetch_id, _ in takewhile(lambda call: publish(call[1], call[0]), ended)]
    if called:
        # Not those that were retried meanwhile: their next end needs a call of its own.
        Fetch.objects.filter(pk__in=called, finished_at__isnull=False).update(on_done_called_at=Now())


def call_overdue() -> int:
    """Repeat the calls that were not noted in time; returns their number."""
    overdue = list(
        Fetch.objects.filter(finished_at__lt=Now() - OVERDUE, on_done_called_at__isnull=True)
        .exclude(on_done="")
        .order_by("finished_at")
        .values_list("pk", "on_done")[:BATCH]
    )
    call_on_done(overdue)
    return len(overdue)
