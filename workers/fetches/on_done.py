"""Calls the task that a fetch names in `on_done`, at least once, when the fetch has ended and that is committed."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import takewhile

from django.db.models.functions import Now

from workers.fetches.models import Fetch
from workers.publish import publish

BATCH = 1_000
# A call that has not been noted after this long was lost with its process or the broker.
OVERDUE = timedelta(seconds=30)


def call_on_done(ended: Iterable[tuple[int, str]]) -> None:
    """Publish the task of each (fetch id, task name), and note those that the broker took.

    Stops at the first that it did not take: a broker that hangs costs the caller one time-out, and `call_overdue`
    repeats the rest.
    """
    called = [fetch_id for fetch_id, _ in takewhile(lambda call: publish(call[1], call[0]), ended)]
    if called:
        # Those that have not begun again meanwhile: a retried one has another end ahead, and another call.
        Fetch.objects.filter(pk__in=called, finished_at__isnull=False).update(on_done_called_at=Now())


def call_overdue() -> int:
    """Publish again what was not noted in time; returns how many that were."""
    overdue = list(
        Fetch.objects.filter(finished_at__lt=Now() - OVERDUE, on_done_called_at__isnull=True)
        .exclude(on_done="")
        .order_by("finished_at")
        .values_list("pk", "on_done")[:BATCH]
    )
    call_on_done(overdue)
    return len(overdue)
