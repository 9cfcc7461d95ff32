"""Has what a cluster did lie in the past, so that its history can be rolled up at once."""

from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from project import embedded
from project.celery import app
from tests.acceptance.conftest import Cluster
from tests.waiting import wait_for
from weir.notifications.models import FlushedEpoch
from weir.ratelimit.models import Slot
from weir.workers import task_names
from weir.workers.fetches.models import Fetch
from weir.workers.history.models import Minute, SiteMinute, Watermark
from weir.workers.mail.models import Email

PASSED = timedelta(minutes=30)


def let_time_pass() -> None:
    """Move all that happened half an hour further into the past: the rollup trails by minutes."""
    with transaction.atomic():
        Watermark.objects.update(rolled_until=F("rolled_until") - PASSED)
        Minute.objects.all().delete()
        SiteMinute.objects.all().delete()
        Fetch.objects.exclude(finished_at=None).update(finished_at=F("finished_at") - PASSED)
        Email.objects.exclude(ended_at=None).update(ended_at=F("ended_at") - PASSED)
        FlushedEpoch.objects.update(flushed_at=F("flushed_at") - PASSED)
        Slot.objects.update(
            start_time=F("start_time") - PASSED,
            use_until=F("use_until") - PASSED,
            finished_at=F("finished_at") - PASSED,
            released_at=F("released_at") - PASSED,
        )


def roll_up(cluster: Cluster) -> None:
    """Let a worker roll up what is past."""
    let_time_pass()
    with app.connection_for_write(f"redis+socket://{embedded.valkey_socket(cluster.broker_home)}") as broker:
        app.send_task(task_names.ROLL_UP, connection=broker)
    is_rolled_up = Watermark.objects.filter(rolled_until__gt=Now() - PASSED / 2).exists
    wait_for(is_rolled_up, 90, "the rollup")
