"""What a team sets for its own tasks, and Weir's have of their own: time limits, and how long results live."""

from pathlib import Path

import pytest
import redis
from celery import Celery
from celery.backends.redis import RedisBackend
from django_celery_beat.models import PeriodicTask

from project.celery import app
from tests.forked import Forked
from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from weir.workers import task_names
from weir.workers.beat.scheduler import LeasedScheduler
from weir.workers.models import Heartbeat

pytestmark = pytest.mark.django_db(transaction=True)

TEAM = "from project.settings import *\n"
# A task of Weir's that takes longer than the team's limit, and one of the team's that must not.
TASKS = """
import time
from celery import shared_task
from weir.workers import heartbeats

@shared_task
def slow():
    time.sleep(8)

def slow_beat(queue):
    time.sleep(4)
    beat(queue)

beat, heartbeats.beat = heartbeats.beat, slow_beat
"""
# With all tasks loaded, as in beat and in workers: Celery writes their limits into each message.
SEND = """
import sys
sys.path.insert(0, sys.argv[1])
import django
django.setup()
from project.celery import app
from weir.workers import task_names
app.loader.import_default_modules()
app.finalize()
for queue in ("default", "weir.ticks"):
    app.send_task(task_names.HEARTBEAT, args=(queue,), queue="default")
app.send_task("team.tasks.slow", queue="default")
"""


@pytest.mark.parametrize(
    "limits",
    [
        "CELERY_TASK_TIME_LIMIT = 1",
        "CELERY_TASK_SOFT_TIME_LIMIT = 1",
        "CELERY_TASK_ANNOTATIONS = {'*': {'time_limit': 1}}",
    ],
)
def test_limits_of_a_team_are_none_of_weirs(
    limits: str, procfile: Procfile, tmp_path: Path, eventually: Eventually
) -> None:
    """A task of Weir's goes on to its end, and the next begins; one of the team's is ended."""
    (tmp_path / "team_settings.py").write_text(f"{TEAM}{limits}\nINSTALLED_APPS += ['team']\n")
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "__init__.py").touch()
    (tmp_path / "team" / "tasks.py").write_text(TASKS)
    procfile.start("worker", PYTHONPATH=str(tmp_path), DJANGO_SETTINGS_MODULE="team_settings")
    team = {**procfile.environment, "DJANGO_SETTINGS_MODULE": "team_settings"}
    sending = Forked("-c", SEND, str(tmp_path), environment=team)
    told, _ = sending.communicate()
    assert sending.returncode == 0, told
    eventually(lambda: Heartbeat.objects.count() == 2, "two heartbeats", seconds=40)
    eventually(lambda: "TimeLimitExceeded" in procfile.said("worker"), "the end of the team's task", seconds=40)


@pytest.mark.parametrize(
    "limits",
    ["CELERY_TASK_DEFAULT_RATE_LIMIT = '1/h'", "CELERY_TASK_ANNOTATIONS = {'*': {'rate_limit': '1/h'}}"],
)
def test_rates_of_a_team_are_none_of_weirs(
    limits: str, procfile: Procfile, tmp_path: Path, eventually: Eventually
) -> None:
    """A worker begins Weir's tasks as they come: each run does all that is due, and sites have rates of their own."""
    (tmp_path / "team_settings.py").write_text(f"{TEAM}{limits}\n")
    procfile.start("worker", PYTHONPATH=str(tmp_path), DJANGO_SETTINGS_MODULE="team_settings")
    url = f"redis+socket://{procfile.broker.connection_pool.connection_kwargs['path']}"
    with app.connection_for_write(url) as connection:
        for queue in ("default", "weir.ticks", "weir.fetch"):
            app.send_task(task_names.HEARTBEAT, args=(queue,), queue="default", connection=connection)
    eventually(lambda: Heartbeat.objects.count() == 3, "three heartbeats", seconds=30)


def test_results_of_a_team_expire(own_broker: redis.Redis) -> None:
    """After a day, which is Celery's default: the Redis that has them must not evict."""
    path = own_broker.connection_pool.connection_kwargs["path"]
    RedisBackend(app=app, url=f"socket://{path}").store_result("a task", "result", "SUCCESS")
    [key] = own_broker.keys("*celery-task-meta-*")
    assert 0 < own_broker.ttl(key) <= 86_400


@pytest.mark.parametrize(("store", "is_cleaned"), [("", False), ("redis://127.0.0.1:1", False), ("file://{}", True)])
def test_only_a_store_that_keeps_old_results_is_cleaned_up(store: str, is_cleaned: bool, tmp_path: Path) -> None:
    """By Celery's daily task."""
    team = Celery("team", backend=store.format(tmp_path) or None, set_as_current=False)
    scheduler = LeasedScheduler(app=team)
    try:
        assert PeriodicTask.objects.filter(task="celery.backend_cleanup").exists() is is_cleaned
    finally:
        scheduler.close()
