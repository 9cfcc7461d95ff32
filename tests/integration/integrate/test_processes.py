"""What `weir_processes` prints starts all that a host needs, in few processes, each known for what it is."""

import sys

from tests.integration.conftest import Eventually
from tests.integration.integrate.conftest import Host

RESULTS = "CELERY_RESULT_BACKEND = CELERY_BROKER_URL"
SEEN = """
import json
from weir.workers import heartbeats, schedule
from weir.workers.processes.status import processes
print(json.dumps([sorted(heartbeats.ages_s()), sorted(p.kind for p in processes() if p.runs), list(schedule.queues())]))
"""
KINDS = '["beat", "fetcher", "ticks+maintenance+mailer"]'


def test_the_fewest_processes_serve_all_queues(host: Host, eventually: Eventually) -> None:
    """A heartbeat of each queue comes, `status` finds nobody missing, and not one result is stored."""
    host.write("weir.APPS", more=RESULTS)
    host.manage("migrate")
    lines = [line.partition(": ") for line in host.manage("weir_processes", "--small").splitlines()]
    assert [name for name, _, _ in lines] == ["weir-worker", "weir-fetcher", "weir-beat"]
    logs = [host.start(command) for _, _, command in lines]
    queues = '["weir.fetch", "weir.mail", "weir.maintenance", "weir.ticks"]'
    eventually(lambda: host.python(SEEN).startswith(f"[{queues}, {KINDS}"), "all heartbeats", seconds=120)
    told = host.run(sys.executable, "-m", "django", "status").stdout
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
