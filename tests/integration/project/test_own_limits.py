"""What a team sets for its own tasks, and Weir's have of their own: time limits, and how long results live."""

from collections.abc import Iterable
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
    time.sleep(2)
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
for name in sys.argv[2:]:
    app.send_task(task_names.HEARTBEAT, args=(name,), queue="default")
app.send_task("team.tasks.slow", queue="default")
"""
LIMITS = (
    "CELERY_TASK_TIME_LIMIT = 1",
    "CELERY_TASK_SOFT_TIME_LIMIT = 1",
    "CELERY_TASK_ANNOTATIONS = {'*': {'time_limit': 1}}",
)
RATES = ("CELERY_TASK_DEFAULT_RATE_LIMIT = '1/h'", "CELERY_TASK_ANNOTATIONS = {'*': {'rate_limit': '1/h'}}")


def start_teams(procfile: Procfile, settings: Iterable[str], folder: Path, more: str = "") -> list[dict[str, str]]:
    """Start a worker with each of these settings, on another database of the broker; return what each is told by."""
    teams = []
    for number, added in enumerate(settings):
        (folder / f"team{number}_settings.py").write_text(f"{TEAM}{added}\n{more}")
        team = {
            "PYTHONPATH": str(folder),
            "DJANGO_SETTINGS_MODULE": f"team{number}_settings",
            "REDIS_URL": f"{procfile.environment['REDIS_URL']}?db={number}",
        }
        procfile.start("worker", log=f"worker{number}", **team)
        teams.append({**procfile.environment, **team})
    return teams


def test_limits_of_a_team_are_none_of_weirs(procfile: Procfile, tmp_path: Path, eventually: Eventually) -> None:
    """A task of Weir's goes on to its end, and the next begins; one of the team's is ended."""
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "__init__.py").touch()
    (tmp_path / "team" / "tasks.py").write_text(TASKS)
    teams = start_teams(procfile, LIMITS, tmp_path, "INSTALLED_APPS += ['team']\n")
    named = [f"{number}.{part}" for number in range(len(teams)) for part in "abc"]  # more than the worker has processes
    for number, team in enumerate(teams):
        sending = Forked("-c", SEND, str(tmp_path), *named[number * 3 :][:3], environment=team)
        told, _ = sending.communicate()
        assert sending.returncode == 0, told
    eventually(lambda: beaten() == named, "three heartbeats of each", seconds=40)
    for number in range(len(teams)):
        log = f"worker{number}"
        eventually(lambda log=log: "TimeLimitExceeded" in procfile.said(log), "the end of its task", seconds=40)


def test_rates_of_a_team_are_none_of_weirs(procfile: Procfile, tmp_path: Path, eventually: Eventually) -> None:
    """A worker begins Weir's tasks as they come: each run does all that is due, and sites have rates of their own."""
    teams = start_teams(procfile, RATES, tmp_path)
    path = procfile.broker.connection_pool.connection_kwargs["path"]
    named = [f"{number}.{part}" for number in range(len(teams)) for part in "abc"]
    for name in named:
        with app.connection_for_write(f"redis+socket://{path}?virtual_host={name[0]}") as connection:
            app.send_task(task_names.HEARTBEAT, args=(name,), queue="default", connection=connection)
    eventually(lambda: beaten() == named, "three heartbeats of each", seconds=30)


def beaten() -> list[str]:
    return [*Heartbeat.objects.order_by("queue").values_list("queue", flat=True)]


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
