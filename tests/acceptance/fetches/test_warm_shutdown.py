"""An order to stop may reach every process of a group at the same time; and a process may die before it has stopped."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import redis
from django.db import connection

from project import embedded
from project.celery import app
from tests.acceptance.conftest import Cluster, states
from tests.waiting import wait_for
from weir.workers import task_names
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import FetchState
from weir.workers.processes.models import Process
from weir.workers.processes.status import SILENT_AFTER_S, processes

KNOWN_WITHIN_S = 10


@contextmanager
def a_task_that_waits(cluster: Cluster) -> Iterator[None]:
    """Make a task of the process `ticks` wait for a lock until the block ends."""
    request_fetch("http://127.1.0.1:1/")
    cluster.start("ticks", "ticks")
    with psycopg.connect(**{**connection.get_connection_params(), "cursor_factory": psycopg.Cursor}) as other:
        other.execute("LOCK TABLE weir_ratelimit_site IN ACCESS EXCLUSIVE MODE")
        with app.connection_for_write(f"redis+socket://{embedded.valkey_socket(cluster.broker_home)}") as broker:
            app.send_task(task_names.DISPATCH, connection=broker)

        def waits_for_the_lock() -> bool:
            waiting = "SELECT FROM pg_locks WHERE relation = 'weir_ratelimit_site'::regclass AND NOT granted"
            return bool(other.execute(waiting).rowcount)

        wait_for(waits_for_the_lock, 20, f"the task to wait for the lock: {cluster.log('ticks')}")
        yield


def test_a_sigterm_to_the_group_does_not_cut_off_the_task_that_a_child_is_running(cluster: Cluster) -> None:
    """The task goes on to its very end, a message to the fetchers, and the worker ends in order after it."""
    with a_task_that_waits(cluster):
        worker, log = cluster.processes["ticks"], cluster.log("ticks")
        os.killpg(worker.pid, signal.SIGTERM)
        wait_for(lambda: "Warm shutdown" in log.read_text(), 10, f"the worker to stop: {log}")
        assert worker.poll() is None

    assert worker.wait(20) == 0
    assert "WorkerLost" not in log.read_text()
    assert "Traceback" not in log.read_text()
    assert not cluster.logged("broker_is_left"), "it answers"
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as client:
        assert client.llen("weir.fetch") == 1
    assert states() == {FetchState.RESERVED: 1}


def test_one_that_is_killed_while_it_stops_is_silent_like_any_other(cluster: Cluster) -> None:
    """It has a heartbeat while it waits for its task, however long that takes; its death is known after ten seconds."""
    with a_task_that_waits(cluster):
        cluster.processes["ticks"].send_signal(signal.SIGTERM)
        wait_for(lambda: processes()[0].state == "stopping", 10, "the worker to stop")
        began_at = Process.objects.get().turned_at
        went_on = Process.objects.filter(turned_at__gt=began_at + timedelta(seconds=SILENT_AFTER_S))
        wait_for(went_on.exists, 2 * SILENT_AFTER_S, "the worker to turn while it stops")
        assert processes()[0].state == "stopping"
        cluster.kill("ticks")
        killed_at = time.monotonic()
        wait_for(lambda: processes()[0].state == "silent", KNOWN_WITHIN_S, "the killed worker to be known")
    print(f"\nknown after {time.monotonic() - killed_at:.1f} s")
