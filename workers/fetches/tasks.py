"""The Celery tasks of the fetches, and what a worker that runs a fetcher does when it stops."""

import sys
from types import ModuleType
from typing import Any

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_shutdown, worker_shutting_down

from weir.workers import broker_link, task_names
from weir.workers.fetches import dispatch as dispatching
from weir.workers.fetches.maintenance import bodies
from weir.workers.fetches.maintenance import purge as purging
from weir.workers.fetches.maintenance import sweep as sweeping
from weir.workers.fetches.on_done import unknown
from weir.workers.pools import serial
from weir.workers.tracing import spans

DRAIN = 3.0  # seconds that answers in flight get when a fetcher stops


@shared_task(name=task_names.DISPATCH, **task_names.OPTIONS)
def dispatch(site_ids: list[int] | None = None) -> None:
    """Reserve at the sites that are due, or at these alone, and send their fetches to the fetchers.

    Safe to run twice, together, or late.
    """
    with spans.span("dispatch") as span:
        span.set_attributes({"weir.fetches": dispatching.dispatch(site_ids)})


@shared_task(name=task_names.FETCH_BATCH, **task_names.OPTIONS)
def fetch_batch(slot_ids: list[int]) -> None:
    """Run the fetches that have these slots; a message that comes twice, or too late, does nothing."""
    _fetcher_module().fetcher().run_batch(slot_ids)


@shared_task(name=task_names.SWEEP, **task_names.OPTIONS)
@serial.run_in(serial.SWEEP)
def sweep() -> None:
    """Find what was lost on the way, and queue it again; safe to run twice or together."""
    sweeping.sweep()


@shared_task(name=task_names.PURGE_FETCHES, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge() -> None:
    """Delete old results, slots and robots.txt files; may be killed anywhere."""
    purging.purge()


@shared_task(name=task_names.PURGE_BODIES, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_bodies() -> None:
    """Delete bodies that no fetch has, or that are too old; may be killed anywhere."""
    bodies.purge_bodies()


@celeryd_after_setup.connect
def _load_fetcher(instance: Any, **_kwargs: Any) -> None:  # noqa: ANN401  Celery's worker
    """Load all of the fetcher's code before the first message."""
    if broker_link.queue_of(task_names.FETCH_BATCH) in instance.app.amqp.queues.consume_from:
        _fetcher_module()


@celeryd_after_setup.connect
def _keep_calls(instance: Any, **_kwargs: Any) -> None:  # noqa: ANN401  as above
    unknown.keep_calls(instance.consumer)


@worker_shutting_down.connect
def _stop_starting(**_kwargs: Any) -> None:
    if running := _running_fetcher():
        running.stop_starting()


@worker_shutdown.connect
def _finish(**_kwargs: Any) -> None:
    if running := _running_fetcher():
        running.close(DRAIN)


def _fetcher_module() -> ModuleType:
    from weir.workers.fetches.fetcher import fetcher  # noqa: PLC0415  only processes that fetch load the HTTP code

    return fetcher


def _running_fetcher() -> Any:  # noqa: ANN401  a Fetcher; a process that fetches nothing does not load its class
    return _fetcher_module().running_fetcher() if "weir.workers.fetches.fetcher.fetcher" in sys.modules else None
