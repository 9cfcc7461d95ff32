"""Celery's doors to the fetches, and the end of a worker that runs a fetcher."""

from typing import Any

from celery import shared_task
from celery.signals import worker_shutdown, worker_shutting_down

from workers import task_names
from workers.fetches import dispatch as dispatching
from workers.fetches.fetcher import fetcher
from workers.fetches.maintenance import purge as purging
from workers.fetches.maintenance import sweep as sweeping

DRAIN = 3.0  # seconds that answers in flight get when a fetcher stops


@shared_task(name=task_names.DISPATCH)
def dispatch(site_ids: list[int] | None = None) -> None:
    """Reserve for the sites that are due, or these alone, and send their fetches out.

    Safe to run twice, together, or late.
    """
    dispatching.dispatch(site_ids)


@shared_task(name=task_names.FETCH_BATCH)
def fetch_batch(slot_ids: list[int]) -> None:
    """Fetch what dispatch reserved, in its slots; a message that comes twice or late does nothing."""
    fetcher.fetcher().run_batch(slot_ids)


@shared_task(name=task_names.SWEEP)
def sweep() -> None:
    """Take back what messages and workers lost; safe to run twice or together."""
    sweeping.sweep()


@shared_task(name=task_names.PURGE_FETCHES)
def purge() -> None:
    """Delete old results and slots; may be killed anywhere."""
    purging.purge()


@worker_shutting_down.connect
def _stop_starting(**_kwargs: Any) -> None:
    if running := fetcher.running_fetcher():
        running.stop_starting()


@worker_shutdown.connect
def _finish(**_kwargs: Any) -> None:
    if running := fetcher.running_fetcher():
        running.close(DRAIN)
