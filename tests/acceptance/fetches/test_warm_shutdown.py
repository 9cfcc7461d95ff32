"""A supervisor's order to stop reaches every process of a group at once, a pool's children too."""

import os
import signal

import redis
from django.db import connection, transaction

from project import embedded
from project.celery import app
from tests.acceptance.conftest import Cluster, states, wait_for
from workers import task_names
from workers.fetches.enqueue import request_fetch
from workers.fetches.models import State


def test_a_sigterm_to_the_group_does_not_cut_off_the_task_that_a_child_is_running(cluster: Cluster) -> None:
    """The task goes on to its very end, a message to the fetchers, and the worker ends in order after it."""
    broker_socket = embedded.valkey_socket(cluster.broker_home)
    request_fetch("http://127.1.0.1:1/")
    cluster.start("ticks", "ticks")
    worker, log = cluster.processes["ticks"], cluster.log("ticks")

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE ratelimit_site IN ACCESS EXCLUSIVE MODE")
        with app.connection_for_write(f"redis+socket://{broker_socket}") as broker:
            app.send_task(task_names.DISPATCH, connection=broker)

        def waits_for_the_lock() -> bool:
            cursor.execute("SELECT FROM pg_locks WHERE relation = 'ratelimit_site'::regclass AND NOT granted")
            return bool(cursor.rowcount)

        wait_for(waits_for_the_lock, 20, f"the task to wait for the lock: {log}")
        os.killpg(worker.pid, signal.SIGTERM)
        wait_for(lambda: "Warm shutdown" in log.read_text(), 10, f"the worker to stop: {log}")
        assert worker.poll() is None

    assert worker.wait(20) == 0
    assert "WorkerLost" not in log.read_text()
    assert "Traceback" not in log.read_text()
    with redis.Redis(unix_socket_path=str(broker_socket)) as client:
        assert client.llen("fetch") == 1
    assert states() == {State.RESERVED: 1}
