"""The contrast: published patterns, whose workers are killed after the API has done what it was asked."""

import os
from typing import Any

import pytest

from project.celery import app
from tests import payments
from tests.acceptance.conftest import Cluster
from tests.acceptance.effects.published_tasks import (
    DYING,
    refund_acknowledged_late,
    refund_with_key_in_redis,
)
from tests.waiting import wait_for

KILLS = 20


@pytest.mark.skipif("WEIR_FAULTS" not in os.environ, reason="it is about others, and runs at length only")
@pytest.mark.faults
@pytest.mark.parametrize("task", [refund_acknowledged_late, refund_with_key_in_redis])
def test_published_patterns_refund_twice_where_a_worker_is_killed(cluster: Cluster, task: Any) -> None:
    """By the book of an API that keeps no keys."""
    cluster.start("worker", "worker", "--include", "tests.acceptance.effects.published_tasks")
    with payments.running(keeps_keys=False) as api:
        orders = [f"{DYING}.{number}" for number in range(KILLS)]
        with app.connection_for_write(cluster.environment["REDIS_URL"].replace("unix:", "redis+socket:")) as broker:
            for order in orders:
                task.apply_async((api.port, order), connection=broker)
        wait_for(lambda: sum(api.refunds().values()) >= 2 * KILLS, 120, "all to be done again")
        again = [order for order, times in api.refunds().items() if times > 1]
    print(f"\n{task.__name__}: {KILLS} kills, {len(again)} refunds twice")
    assert len(again) == KILLS
