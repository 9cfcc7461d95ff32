"""Which fetches and batches keep a call of `on_done` whose task a worker does not know; it is made again (calls.py)."""

from typing import Any, Final

from django.db.models.functions import Now

from weir.workers.fetches.models import Batch, Fetch
from weir.workers.on_done import unknown

HEADER: Final = "weir_fetch"  # of the message that calls a task of `on_done`: the id of the fetch
BATCH_HEADER: Final = "weir_batch"  # of the message that calls a task of `on_batch_done`: the id of the batch


def keep_calls(consumer: Any) -> None:  # noqa: ANN401  Celery's
    """Make this consumer of a worker store in the fetch, or the batch, each call of a task that it does not know."""
    unknown.keep_calls(consumer, HEADER, record)
    unknown.keep_calls(consumer, BATCH_HEADER, record_batch)


def record(fetch: int, task: str) -> None:
    """Record that a worker does not know the task that this fetch called at its end.

    A fetch that was retried meanwhile calls it at its next end.
    """
    Fetch.objects.filter(pk=fetch, on_done=task, finished_at__isnull=False).update(
        on_done_again_at=Now() + unknown.AGAIN_AFTER
    )


def record_batch(batch: int, task: str) -> None:
    """Record that a worker does not know the task that this batch called at its end, as `record` does of a fetch."""
    Batch.objects.filter(pk=batch, on_done=task, ended_at__isnull=False).update(
        on_done_again_at=Now() + unknown.AGAIN_AFTER
    )
