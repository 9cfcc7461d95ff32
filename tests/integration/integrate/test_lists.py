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
print(rows)
"""


@pytest.mark.parametrize("apps", JOBS)
def test_a_list_alone(apps: str, host: Host) -> None:
    """Checked, migrated, in step with its models; and its ticks, and no others, are in the schedule, and known."""
    host.write(f"weir.{apps}")
    assert "no issues" in host.manage("check")
    host.manage("migrate")
    assert "No changes" in host.manage("makemigrations", "--check")
    task, queue = JOBS[apps]
    rows = host.python(ROWS)
    assert f"'weir.{task}': '{queue}'" in rows
    if "APPS_MAIL" not in apps and apps.startswith("APPS_"):
        assert "weir.mail" not in rows
