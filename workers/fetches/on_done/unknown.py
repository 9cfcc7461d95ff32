"""What a worker does with a call of `on_done` whose task it does not know: the fetch, or the batch, keeps the call.

Celery rejects such a message, and the broker forgets it. So the worker records the call in the fetch first, and it is
made again (calls.py). If the worker is killed before it has done so, it has not rejected the message either: the broker
delivers it to another worker.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.db import DataError, Error, connection
from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.workers.cli.terminal import span
from weir.workers.fetches.models import Batch, Fetch

log = get_logger(__name__)

HEADER: Final = "weir_fetch"  # of the message that calls a task of `on_done`: the id of the fetch
BATCH_HEADER: Final = "weir_batch"  # of the message that calls a task of `on_batch_done`: the id of the batch
AGAIN_AFTER: Final = timedelta(minutes=5)
# What a person does about it, for each report that tells of such a call.
CALLED_AGAIN: Final = (
    "define this task, and restart the workers of its queue: it is called again every "
    f"{span(AGAIN_AFTER.total_seconds())}"
)
RECORD_AGAIN_S: Final = 5.0  # seconds after which a worker that could not write tries again; it keeps the message


def keep_calls(consumer: Any) -> None:  # noqa: ANN401  Celery's
    """Make this consumer of a worker store in the fetch each call of a task that the worker does not know."""
    consumer.on_unknown_task = partial(_keep, consumer, consumer.on_unknown_task)


def _keep(consumer: Any, reject: Callable[..., None], body: object, message: Any, error: Exception) -> None:  # noqa: ANN401  as above
    """Record the call, and let Celery reject the message; if PostgreSQL does not take it, try both again later."""
    headers = message.headers or {}
    fetch, batch, task = headers.get(HEADER), headers.get(BATCH_HEADER), headers.get("task", "")
    try:
        if isinstance(task, str) and isinstance(fetch, int):
            record(fetch, task)
        if isinstance(task, str) and isinstance(batch, int):
            record_batch(batch, task)
    except (DataError, UnicodeEncodeError):  # no fetch can have such an id, or name such a task: nothing is kept
        reject(body, message, error)
    except Error as failure:
        log.warning("call_not_kept", fetch=fetch, batch=batch, task=task, error=str(failure))
        consumer.timer.call_after(RECORD_AGAIN_S, _keep, (consumer, reject, body, message, error))
    else:
        reject(body, message, error)


def record(fetch: int, task: str) -> None:
    """Record that a worker does not know the task that this fetch called at its end.

    A fetch that was retried meanwhile calls it at its next end.
    """
    try:
        Fetch.objects.filter(pk=fetch, on_done=task, finished_at__isnull=False).update(
            on_done_again_at=Now() + AGAIN_AFTER
        )
    finally:
        connection.close()  # in a worker's parent process, nothing would replace a broken one


def record_batch(batch: int, task: str) -> None:
    """Record that a worker does not know the task that this batch called at its end, as `record` does of a fetch."""
    try:
        Batch.objects.filter(pk=batch, on_done=task, ended_at__isnull=False).update(
            on_done_again_at=Now() + AGAIN_AFTER
        )
    finally:
        connection.close()  # as above
