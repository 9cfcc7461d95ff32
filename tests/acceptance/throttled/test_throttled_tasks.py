"""throttled_task with real workers, broker and beat, judged by the site's own log."""

import json
import signal
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.db.models import QuerySet

from demo.fakes import judge, site_log, sites
from project.celery import app
from tests.acceptance.conftest import Cluster, set_rates
from tests.acceptance.judging import early
from tests.acceptance.throttled.throttled_tasks import use_slots, visit
from tests.waiting import wait_for
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Slot
from weir.workers.throttled.models import PostponedTask

TASKS = 40
RATE = "20/s"
REMOVED = "shop.tasks.removed"
MESSAGE = json.dumps(
    {"task": REMOVED, "args": [], "kwargs": {}, "options": {"task_id": "1", "headers": None, "retries": 0}}
)


def test_tasks_of_two_workers_keep_their_sites_pace_and_none_is_lost_or_doubled(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Postponed and published again, each task sends one request, an interval apart; a task without code stays."""
    with sites.running(1, tmp_path) as running:
        intervals = set_rates(running, {running.hosts[0]: RATE})
        site = f"{running.hosts[0]}:{running.port}"
        processes = [("worker", "worker-1"), ("worker", "worker-2"), ("ticks", "ticks"), ("beat", "beat")]
        for kind, name in processes:
            own = ["--include", "tests.acceptance.throttled.throttled_tasks"]
            options = own if kind == "worker" else []
            cluster.launch(kind, name, *options)
        for kind, name in processes:
            cluster.wait_until_ready(kind, name)

        site_settings.set_rate("other.example", "1/s")
        removed = PostponedTask.objects.create(site="other.example", task=REMOVED, signature=MESSAGE, max_wait=1)
        site_settings.pause(site)
        task: Any = visit
        with app.connection_for_write(cluster.environment["REDIS_URL"].replace("unix:", "redis+socket:")) as broker:
            for number in range(TASKS):
                task.apply_async((running.url(0, f"/ok/{number}"),), connection=broker)
        visits = PostponedTask.objects.filter(task=visit.name)
        wait_for(lambda: visits.waiting().count() == TASKS, 10, "all tasks to be put back")
        site_settings.resume(site)
        wait_for(lambda: len(site_log.read_arrivals(running.log)[0]) >= TASKS, 30, "all tasks to ask the site")
        wait_for(lambda: not visits.exists(), 5, "the last row to go")
        unknown = PostponedTask.objects.filter(pk=removed.pk, publications__gt=1)
        wait_for(unknown.exists, 5, "workers to throw a message away, and another one")

    arrivals, _ = site_log.read_arrivals(running.log)
    asked = [arrival.path.rpartition("/")[2].split("?") for arrival in arrivals]
    numbers = [int(number) for number, _worker in asked]
    took_s = (arrivals[-1].at_ns - arrivals[0].at_ns) / 1e9
    print(
        f"\nrequests: {len(arrivals)} in {took_s:.2f} s  early: {early(arrivals, intervals)}  "
        f"shortest gap / interval: {min(judge.gap_ratios(arrivals, intervals)):.4f}  order: {numbers}"
    )
    assert early(arrivals, intervals) == 0
    assert sorted(numbers) == list(range(TASKS))
    assert max(abs(number - place) for place, number in enumerate(numbers)) <= TASKS / 4, "roughly first in, first out"
    assert len({worker for _number, worker in asked}) > 2, "the children of both workers must have had tasks"


def test_a_worker_that_is_stopped_gives_back_what_its_tasks_did_not_use(cluster: Cluster) -> None:
    """At once: other processes need not wait for the end of a run that nobody uses. So does a worker of each pool."""
    task: Any = use_slots
    for pool in ("prefork", "threads", "solo"):
        site = f"{pool}.example"
        site_settings.set_rate(site, "10/s", grace=timedelta(seconds=3))
        cluster.start("worker", pool, "--include", "tests.acceptance.throttled.throttled_tasks", "--pool", pool)
        with app.connection_for_write(cluster.environment["REDIS_URL"].replace("unix:", "redis+socket:")) as broker:
            task.apply_async((site, 3), connection=broker)  # a run of one start, and two of a run of four
        used = Slot.objects.filter(site__name=site).exclude(finished_at=None)
        wait_for(partial(_are, 3, used), 20, f"the task of {pool} to end")
        cluster.processes[pool].send_signal(signal.SIGTERM)
        cluster.processes.pop(pool).wait(10)
        assert not Slot.objects.filter(site__name=site, finished_at=None, released_at=None).exists(), pool
        assert slots.estimate(site) < 0.5, pool


def _are(number: int, found: QuerySet[Slot]) -> bool:
    return found.count() == number
