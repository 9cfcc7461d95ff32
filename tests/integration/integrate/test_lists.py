"""Each list of apps works alone in a project that has nothing else of Weir."""

import pytest

from tests.integration.integrate.conftest import Host

JOBS = {
    "APPS_THROTTLE": ("throttled.publish_postponed", "weir.ticks"),
    "APPS_NOTIFICATIONS": ("unread.flush", "weir.ticks"),
    "APPS_MAIL": ("mail.send_emails", "weir.mail"),
    "APPS_FETCHES": ("fetches.dispatch", "weir.ticks"),
    "APPS": ("fetches.dispatch", "weir.ticks"),
    "APPS + weir.APPS_OPS": ("history.rollup", "weir.maintenance"),
    "APPS + weir.APPS_API": ("api.purge", "weir.maintenance"),
}
ROWS = """
from django_celery_beat.models import PeriodicTask
from weir.workers import schedule
rows = {row.task: row.queue for row in PeriodicTask.objects.all()}
assert set(rows) == {entry.task for entry in schedule.entries()}, rows
from shop.celery import app
app.loader.import_default_modules()
app.finalize()
assert set(rows) <= set(app.tasks), set(rows) - set(app.tasks)
from weir.workers.recovery import witness
assert witness.exchange(7) >= 7  # Redis, by a key of this database, also where notifications are not installed
print(rows)
"""
DO = {
    "APPS_THROTTLE": """
from weir.ratelimit.throttle import throttle
with throttle("a.example"):
    pass
""",
    "APPS_NOTIFICATIONS": """
from django.contrib.auth.models import User
from weir.notifications import inbox
ada = User.objects.create(username="ada")
inbox.notify(ada.pk, kind="shop.hello", title="Hello")
assert inbox.unread_count(ada.pk) == 1
""",
    "APPS_MAIL": """
from weir.workers.mail import kinds, outbox
from weir.workers.mail.models import Email
kinds.register("shop.hello")(lambda **_: kinds.Content(subject="Hello", text="Hello."))
for _ in range(2):
    outbox.send_once("shop.hello", "1", to="ada@example.com")
assert Email.objects.count() == 1
from weir.workers.mail.tasks import purge_emails
purge_emails()
""",
    "APPS_FETCHES": """
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches import tasks
fetch = request_fetch("http://a.example/")
tasks.dispatch()
tasks.sweep()
tasks.purge()
""",
}


@pytest.mark.parametrize("apps", JOBS)
def test_a_list_alone(apps: str, host: Host) -> None:
    """Checked, migrated, in step with its models; its ticks, and no others, are in the schedule; its job is done."""
    host.write(f"weir.{apps}")
    assert "no issues" in host.manage("check")
    host.manage("migrate")
    assert "No changes" in host.manage("makemigrations", "--check")
    task, queue = JOBS[apps]
    rows = host.python(ROWS)
    for name, code in DO.items():
        if name == apps or not apps.startswith("APPS_"):
            host.python(code)
    assert f"'weir.{task}': '{queue}'" in rows
    if "APPS_MAIL" not in apps and apps.startswith("APPS_"):
        assert "weir.mail" not in rows
