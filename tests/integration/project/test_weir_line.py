"""The smallest installation's line: the Procfile's `weir` with `default`, which beats, and runs what its beat sends."""

import signal
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.utils.timezone import now
from django_celery_beat.models import PeriodicTask

from tests.integration.conftest import Eventually
from tests.integration.project.conftest import Procfile
from weir.notifications import inbox
from weir.notifications.models import UnreadCount
from weir.workers import heartbeats, schedule
from weir.workers.beat import rows
from weir.workers.models import BeatLease
from weir.workers.processes.models import Process

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "test-weir-line"
END_WITHIN_S = 10


def test_it_beats_ticks_and_ends(procfile: Procfile, eventually: Eventually) -> None:
    """Beat is in the table of processes by itself, so that `status` knows of one that hangs; it gives up its lease."""
    rows.synchronise(schedule.entries())
    PeriodicTask.objects.filter(task="weir.heartbeat").update(last_run_at=now() - timedelta(hours=1))
    url = procfile.environment["DATABASE_URL"]
    sign = "&" if "?" in url else "?"
    weir = procfile.start("weir", also="default", DATABASE_URL=f"{url}{sign}application_name={NAME}")
    eventually(BeatLease.objects.exists, "beat to have the lease", seconds=30)
    eventually(
        lambda: (
            {process.kind for process in Process.objects.filter(pid=weir.pid)}
            == {"ticks+maintenance+fetcher+mailer+worker", "beat"}
        ),
        "both to be known",
    )
    eventually(lambda: {*heartbeats.ages_s()} == {*schedule.queues()}, "a heartbeat of each queue", seconds=30)
    user = get_user_model().objects.create(username="somebody")
    inbox.notify(user.pk, "test", "text")
    eventually(lambda: UnreadCount.objects.filter(unread_count=1).exists(), "a flush", seconds=30)

    with connection.cursor() as cursor:  # beat goes on where its session is cut
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [NAME])
    inbox.notify(user.pk, "test", "text")
    eventually(lambda: UnreadCount.objects.filter(unread_count=2).exists(), "another flush", seconds=30)

    weir.send_signal(signal.SIGTERM)
    assert weir.wait(END_WITHIN_S) == 0
    assert not BeatLease.objects.exists()
    assert not Process.objects.exists()
