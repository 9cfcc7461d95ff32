"""A Redis that refuses what it is told, after a fail-over or because it is full, ends no worker."""

import re
import signal
from collections.abc import Callable

import pytest
import redis

from project.celery import app
from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from weir.workers import task_names
from weir.workers.models import Heartbeat

WORKERS = [("worker", "default"), ("fetcher", "weir.fetch")]  # a pool of processes, and one of threads


@pytest.fixture
def ask(own_broker: redis.Redis) -> Callable[[str], None]:
    """Return what asks a worker of the queue for a heartbeat."""
    url = f"redis+socket://{own_broker.connection_pool.connection_kwargs['path']}"

    def send(queue: str) -> None:
        with app.connection_for_write(url) as connection:
            app.send_task(task_names.HEARTBEAT, args=(queue,), queue=queue, connection=connection)

    return send


@pytest.fixture
def works(ask: Callable[[str], None], eventually: Eventually) -> Callable[[str], None]:
    """Return what waits until a worker of the queue has done something that it is asked for now."""

    def check(queue: str) -> None:
        Heartbeat.objects.all().delete()
        ask(queue)
        eventually(Heartbeat.objects.filter(queue=queue).exists, f"a heartbeat of {queue}", seconds=40)

    return check


@pytest.mark.parametrize("worker", WORKERS)
def test_a_fail_over_ends_no_worker(
    worker: tuple[str, str], procfile: Procfile, works: Callable[[str], None], eventually: Eventually
) -> None:
    """What was the primary refuses to write: the worker says so, and works when there is a primary again."""
    name, queue = worker
    process = procfile.start(name)
    works(queue)
    procfile.broker.replicaof("127.0.0.1", 1)
    eventually(lambda: re.search("READONLY|UNBLOCKED|read only replica", procfile.said(name)), "a refusal")
    procfile.broker.replicaof("NO", "ONE")
    works(queue)
    assert process.poll() is None


@pytest.mark.parametrize("worker", WORKERS)
def test_a_full_redis_ends_no_worker(
    worker: tuple[str, str],
    procfile: Procfile,
    ask: Callable[[str], None],
    works: Callable[[str], None],
    eventually: Eventually,
) -> None:
    """A message is there, and cannot be noted as taken: the worker says so, and works when there is memory again."""
    name, queue = worker
    process = procfile.start(name)
    works(queue)
    process.send_signal(signal.SIGSTOP)
    ask(queue)
    procfile.broker.config_set("maxmemory", 1)
    process.send_signal(signal.SIGCONT)
    eventually(lambda: "OutOfMemoryError" in procfile.said(name), "a refusal")
    procfile.broker.config_set("maxmemory", 0)
    works(queue)
    assert process.poll() is None
