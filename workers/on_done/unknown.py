"""What a worker does with a call of `on_done` whose task it does not know: the row that named it keeps the call.

Celery rejects such a message, and the broker forgets it. So the worker records the call in the row first, and it is
made again. If the worker is killed before it has done so, it has not rejected the message either: the broker delivers
it to another worker.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.db import DataError, Error, connection

from weir.logs.loggers import get_logger
from weir.workers.cli.terminal import span

log = get_logger(__name__)

AGAIN_AFTER: Final = timedelta(minutes=5)
# What a person does about it, for each report that tells of such a call.
CALLED_AGAIN: Final = (
    "define this task, and restart the workers of its queue: it is called again every "
    f"{span(AGAIN_AFTER.total_seconds())}"
)
RECORD_AGAIN_S: Final = 5.0  # seconds after which a worker that could not write tries again; it keeps the message

Record = Callable[[int, str], object]  # stores in the row of this id that a worker does not know this task


def keep_calls(consumer: Any, header: str, record: Record) -> None:  # noqa: ANN401  Celery's
    """Make this consumer of a worker record each call of a task that the worker does not know.

    `header` is the message's that has the id of the row. Each room keeps its own calls, one after the other.
    """
    reject: Callable[..., None] = consumer.on_unknown_task

    def keep(body: object, message: Any, error: Exception) -> None:  # noqa: ANN401  as above
        """Record the call, and let Celery reject the message; if PostgreSQL does not take it, try both again later."""
        headers = message.headers or {}
        row, task = headers.get(header), headers.get("task", "")
        try:
            if isinstance(task, str) and isinstance(row, int):
                _recorded(record, row, task)
        except (DataError, UnicodeEncodeError):  # no row can have such an id, or name such a task: nothing is kept
            reject(body, message, error)
        except Error as failure:
            log.warning("call_not_kept", header=header, row=row, task=task, error=str(failure))
            consumer.timer.call_after(RECORD_AGAIN_S, keep, (body, message, error))
        else:
            reject(body, message, error)

    consumer.on_unknown_task = keep


def _recorded(record: Record, row: int, task: str) -> None:
    try:
        record(row, task)
    finally:
        connection.close()  # in a worker's parent process, nothing would replace a broken one
