"""Ticks are run when they come, whatever users' tasks do, and whatever takes long among them."""

import math
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from django.db import connection, transaction

from project import embedded
from project.celery import app
from tests.acceptance.conftest import Cluster
from tests.acceptance.project import users_tasks
from tests.waiting import in_time, wait_for
from weir.workers import task_names
from weir.workers.models import Heartbeat

USERS_TASKS = 1_000
TICKS = 60
TICKS_AT_LENGTH = 600 if "WEIR_FAULTS" in os.environ else TICKS
EVERY_S = 0.1
LATEST_S = 0.2  # for 99 of 100 ticks, between the sending and the end of the task
CHILDREN = 2  # of the process `maintenance`
LONG = (task_names.RECONCILE_UNREAD, task_names.PURGE_NOTIFICATIONS, task_names.PURGE_FETCHES)


@contextmanager
def broker_of(cluster: Cluster) -> Iterator[Any]:
    """Provide a connection to the cluster's broker."""
    with app.connection_for_write(f"redis+socket://{embedded.valkey_socket(cluster.broker_home)}") as opened:
        yield opened


def latenesses(broker: Any, ticks: int) -> list[float]:
    """Send ticks that note when they ran, and return after how many seconds they did."""
    queue = str(app.amqp.router.route({}, task_names.DISPATCH)["queue"].name)
    sent = {}
    for number in range(ticks):
        sent[f"tick {number}"] = time.time()
        app.send_task(task_names.HEARTBEAT, (f"tick {number}",), queue=queue, connection=broker)
        time.sleep(EVERY_S)
    noted = Heartbeat.objects.filter(queue__startswith="tick ")
    wait_for(lambda: noted.count() == ticks, 60, "all ticks")
    return [beat.beat_at.timestamp() - sent[beat.queue] for beat in noted]


def ninety_nine_of_100(latenesses_s: list[float]) -> float:
    """Return what 99 of 100 are below, and print it."""
    found = sorted(latenesses_s)
    p99 = found[math.ceil(0.99 * len(found)) - 1]
    print(f"\n{len(found)} ticks: p50 {statistics.median(latenesses_s) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
    return p99


@pytest.mark.alone
@pytest.mark.faults
def test_users_tasks_do_not_delay_ticks(cluster: Cluster) -> None:
    """A thousand tasks that take a second each wait in `default`, and 99 of 100 ticks end within 0.2 s."""
    cluster.launch("worker", "worker", "--include", users_tasks.__name__)
    cluster.start_together("ticks", "beat")
    cluster.wait_until_ready("worker", "worker")
    with broker_of(cluster) as broker:
        task: Any = users_tasks.takes_a_second
        for _ in range(USERS_TASKS):
            task.apply_async(connection=broker)
        found = latenesses(broker, TICKS_AT_LENGTH)
    with redis.Redis(unix_socket_path=str(embedded.valkey_socket(cluster.broker_home))) as client:
        assert client.llen("default") > USERS_TASKS / 3
    in_time(ninety_nine_of_100(found) <= LATEST_S, "ticks were late")


@pytest.mark.alone
def test_what_takes_long_does_not_delay_ticks(cluster: Cluster) -> None:
    """Reconciliation and both purges hang, and more of them wait: they have a process of their own."""
    cluster.start_together("ticks", "maintenance", "beat")
    with transaction.atomic(), connection.cursor() as cursor, broker_of(cluster) as broker:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("LOCK TABLE weir_notifications_notification, weir_fetches_robotsfile IN ACCESS EXCLUSIVE MODE")
        for task in LONG * 3:
            app.send_task(task, connection=broker)

        def all_children_hang() -> bool:
            cursor.execute("SELECT DISTINCT pid FROM pg_locks WHERE NOT granted")
            return bool(cursor.rowcount >= CHILDREN)

        wait_for(all_children_hang, 20, "the long ones to hang")
        found = latenesses(broker, TICKS)
        assert all_children_hang(), "until the last of them"
    in_time(ninety_nine_of_100(found) <= LATEST_S, "ticks were late")
