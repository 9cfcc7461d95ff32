"""The Celery task of the watches."""

from celery import shared_task

from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.watches import asking, judging


@shared_task(name=task_names.KEEP_WATCH, **task_names.OPTIONS)
def keep_watch(fetch_id: int | None = None) -> None:
    """Ask for the pages that are due, and judge what fetches of watches brought; safe to run twice or together.

    A fetcher of a version that knows no watches calls it with a fetch that has ended, as any other `on_done`.
    """
    if fetch_id is not None:
        judging.take_back(fetch_id)
    _keep_watch()


@serial.run_in(serial.WATCH)
def _keep_watch() -> None:
    asking.ask_due()
    judging.judge_ended()
