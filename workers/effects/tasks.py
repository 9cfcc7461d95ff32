"""The tasks of effects, and what the process does about them when it ends."""

from typing import Any

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_process_shutdown, worker_shutdown

from weir.workers import task_names
from weir.workers.effects import on_done
from weir.workers.effects.maintenance import forgetting, purge
from weir.workers.effects.performing import runner
from weir.workers.effects.performing.threads import THREADS
from weir.workers.on_done import unknown
from weir.workers.pools import serial


@shared_task(name=task_names.PERFORM_EFFECTS, **task_names.OPTIONS)
@serial.run_in(serial.EFFECTS)
def perform_effects() -> None:
    """Give the effects that are due to threads of this process, and settle what dead processes left.

    It is safe to run this task twice, at the same time, or late, and to kill it anywhere.
    """
    runner.take_up()


@shared_task(name=task_names.PURGE_EFFECTS, **task_names.OPTIONS)
@serial.run_in(serial.MAINTENANCE)
def purge_effects() -> None:
    """Delete old effects, if WEIR_EFFECT_RETENTION is set, and forget those that ended whose users were forgotten.

    It is safe to run this task twice, at the same time, or late, and to kill it anywhere.
    """
    purge.purge(within_s=purge.WITHIN_S)
    forgetting.finish(within_s=purge.WITHIN_S)


@celeryd_after_setup.connect
def _keep_calls(instance: Any, **_kwargs: Any) -> None:  # noqa: ANN401  Celery's worker
    unknown.keep_calls(instance.consumer, on_done.HEADER, on_done.record)


@worker_process_shutdown.connect
@worker_shutdown.connect
def _finish(**_kwargs: Any) -> None:
    """Let the calls that are in flight end, for a while."""
    THREADS.close()
