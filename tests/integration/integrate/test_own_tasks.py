"""A host's own tasks are Celery's, as before."""

import contextlib

import psutil
import pytest

from tests.integration.conftest import Eventually
from tests.integration.integrate.conftest import Host

LONG = """
import os, time
from celery import shared_task
@shared_task
def wait(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
"""
SEND = "from shop.tasks import wait; print(wait.delay({path!r}).id)"
REVOKE = "from shop.celery import app; app.control.revoke({task!r}, terminate=True)"


@pytest.mark.parametrize("queues", ["celery", "celery,weir.ticks"])
def test_a_task_that_is_revoked_ends(queues: str, host: Host, eventually: Eventually) -> None:
    """By SIGTERM, which Weir's tasks alone are deaf to: `revoke(terminate=True)` says nothing of one that goes on."""
    host.write("weir.APPS_THROTTLE")
    (host.folder / "shop" / "tasks.py").write_text(LONG)
    host.manage("migrate")
    host.start(f"celery -A shop worker --queues {queues} --concurrency 1 --hostname own@%h")
    noted = host.folder / "noted"
    task = host.python(SEND.format(path=str(noted)))
    eventually(lambda: noted.exists() and noted.read_text(), "the task to begin", seconds=60)
    child = int(noted.read_text())
    host.python(REVOKE.format(task=task))
    eventually(lambda: not _runs(child), "the task's process to end", seconds=30)


def _runs(process: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    return False
