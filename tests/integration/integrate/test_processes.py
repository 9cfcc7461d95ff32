"""What `weir_processes` prints starts all that a host needs, in one process if asked, which is known for what it is."""

import json

from tests.integration.integrate.conftest import Host

# Beat sends a first heartbeat a minute after it has begun: here the last one was an hour ago.
SET_UP = """
from datetime import timedelta
from django.core.management import call_command
from django.utils.timezone import now
from django_celery_beat.models import PeriodicTask
call_command("migrate", verbosity=0)
PeriodicTask.objects.filter(task="weir.heartbeat").update(last_run_at=now() - timedelta(hours=1))
call_command("weir_processes", small=True)
"""
RESULTS = "CELERY_RESULT_BACKEND = CELERY_BROKER_URL"
SEEN = """
import json, time
from django.db import connection
from weir.workers import heartbeats
from weir.workers.processes.status import processes
give_up_at = time.monotonic() + 120
while True:
    seen = [sorted(heartbeats.ages_s()), sorted(process.kind for process in processes() if process.runs)]
    if seen == {wanted!r} or time.monotonic() > give_up_at:
        break
    connection.close()
    time.sleep(0.2)
print(json.dumps(seen))
"""
ALL = [["weir.fetch", "weir.mail", "weir.maintenance", "weir.ticks"], ["beat", "ticks+maintenance+fetcher+mailer"]]


def test_one_process_serves_all_queues(host: Host) -> None:
    """A heartbeat of each queue comes, `status` finds nobody missing, and not one result is stored."""
    host.write("weir.APPS", more=RESULTS)
    lines = [line.partition(": ") for line in host.python(SET_UP).splitlines()]
    assert [name for name, _, _ in lines] == ["weir"]
    logs = [host.start(command) for _, _, command in lines]
    assert json.loads(host.python(SEEN.format(wanted=ALL))) == ALL
    told = host.run("-m", "django", "status").stdout
    assert "is alive" not in told, told  # as in "No worker of the queue weir.ticks is alive"
    assert host.broker.keys("celery-task-meta-*") == []
    assert not any("unregistered" in log.read_text() for log in logs)


def test_all_lines_of_each_form(host: Host) -> None:
    """Of the apps that are installed, and for the app that the project has."""
    host.write("weir.APPS_MAIL")
    assert [line.partition(":")[0] for line in host.manage("weir_processes").splitlines()] == [
        "weir-maintenance", "weir-mailer", "weir-beat",
    ]  # fmt: skip
    units = host.manage("weir_processes", "--systemd")
    assert "celery -A shop worker --queues weir.mail " in units
    assert "weir-mailer@%%h" in units
    assert '"weir.maintenance,weir.mail"' in host.manage("weir_processes", "--compose", "--small")
