"""A host's own tasks are Celery's, as before."""

import contextlib

import psutil

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
SEND = """
from shop.tasks import wait
print(*(wait.apply_async([path], queue=queue).id for queue, path in {paths!r}.items()))
"""
REVOKE = "from shop.celery import app; app.control.revoke({tasks!r}, terminate=True)"
WORKERS = {"celery": "celery", "others": "others,weir.ticks"}  # without and with a queue of Weir's


def test_a_task_that_is_revoked_ends(host: Host, eventually: Eventually) -> None:
    """By SIGTERM, which Weir's tasks alone are deaf to: `revoke(terminate=True)` says nothing of one that goes on."""
    host.write("weir.APPS_THROTTLE")
    (host.folder / "shop" / "tasks.py").write_text(LONG)
    host.manage("migrate")
    for name, queues in WORKERS.items():
        host.start(f"celery -A shop worker --queues {queues} --concurrency 1 --hostname {name}@%h")
    noted = {name: host.folder / f"{name}.noted" for name in WORKERS}
    tasks = host.python(SEND.format(paths={name: str(path) for name, path in noted.items()})).split()
    for path in noted.values():
        eventually(lambda path=path: path.exists() and path.read_text(), "the task to begin", seconds=60)
    children = [int(path.read_text()) for path in noted.values()]
    assert len(set(children)) == 2
    host.python(REVOKE.format(tasks=tasks))
    eventually(lambda: not any(map(_runs, children)), "the tasks' processes to end", seconds=30)


def _runs(process: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    return False
