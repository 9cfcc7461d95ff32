"""A host's `beat_schedule` goes on as under Celery's own scheduler, which Weir's replaces."""

import json

from tests.integration.integrate.conftest import Host

SCHEDULE = """
from celery.schedules import crontab
CELERY_BEAT_SCHEDULE = {
    "often": {"task": "shop.tasks.tidy_up", "schedule": 0.5},
    "seldom": {"task": "shop.tasks.tidy_up", "schedule": 90.5},
    "listed": {"task": "shop.tasks.tidy_up", "schedule": crontab(minute={30, 0}, hour=[7])},
    "expires": {
        "task": "shop.tasks.tidy_up", "schedule": 60, "options": {"expires": 15, "time_limit": 5, "queue": "q"},
    },
}
"""
FEWER = 'CELERY_BEAT_SCHEDULE = {"often": {"task": "shop.tasks.tidy_up", "schedule": 3}}'
ADMINS = """
from django_celery_beat.models import IntervalSchedule, PeriodicTask
every, _ = IntervalSchedule.objects.get_or_create(every=60, period="seconds")
PeriodicTask.objects.create(name="of an admin", task="shop.tasks.tidy_up", interval=every)
"""
READ = """
import json
from shop.celery import app
app.conf
from django.conf import settings
exec(settings.BEFORE)
from weir.workers.beat.scheduler import LeasedScheduler
found = LeasedScheduler(app=app).schedule
def told(entry):
    spec = entry.schedule
    every = getattr(spec, "run_every", None)
    return every.total_seconds() if every else [sorted(spec.minute), sorted(spec.hour)]
own = {name: entry for name, entry in found.items() if not name.startswith("weir: ")}
own.pop("celery.backend_cleanup", None)
options = own["expires"].to_send().options if "expires" in own else {}
kept = {name: str(options[name]) for name in ("expires", "time_limit", "queue") if name in options}
print(json.dumps([{name: told(entry) for name, entry in own.items()}, kept]))
"""
DATABASE_SCHEDULER = 'CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"\n'


def test_beat_does_what_the_settings_say_until_they_no_longer_do(host: Host) -> None:
    """Parts of seconds, of which 0 would flood the broker, lists of numbers, and what each task is sent with.

    What people have made in the admin stays; so do all rows where django-celery-beat's scheduler had them before.
    """
    host.write("weir.APPS_THROTTLE")
    host.manage("migrate")
    steps = SCHEDULE, SCHEDULE + f"BEFORE = {ADMINS!r}", DATABASE_SCHEDULER + FEWER, FEWER
    told = host.told_with(("BEFORE = ''\n" + step for step in steps), READ)
    assert [status for status, _ in told] == [0] * 4, told
    (found, kept), *later = [json.loads(text) for _, text in told]
    assert found == {"often": 0.5, "seldom": 90.5, "listed": [[0, 30], [7]], "expires": 60.0}
    assert kept.pop("expires").startswith("20")  # a time, by PostgreSQL's clock
    assert kept == {"time_limit": "5", "queue": "q"}
    admins, both, fewer = (found for found, _ in later)
    assert (len(admins), len(both)) == (5, 5)
    assert fewer == {"often": 3.0, "of an admin": 60.0}
