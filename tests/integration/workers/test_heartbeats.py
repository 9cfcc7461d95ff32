"""A queue is silent when a heartbeat is overdue: not right after the start."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from weir.workers import heartbeats, schedule
from weir.workers.models import Heartbeat
from weir.workers.processes.models import Process

pytestmark = pytest.mark.django_db

KINDS = ("beat", "worker", "ticks", "maintenance", "fetcher", "mailer")
LONG_AGO = timedelta(hours=1)


def known(kind: str, since: timedelta, name: str = "") -> None:
    """Create a process of this kind that has been known for so long."""
    Process.objects.create(kind=kind, name=name or kind, host="a", pid=1, version="1", started_at=Now() - since)


def test_a_queue_without_a_heartbeat_is_silent() -> None:
    """Whether no process is known, or all have been for long."""
    assert heartbeats.silent_queues() == [*schedule.queues()]
    for kind in KINDS:
        known(kind, LONG_AGO)
    Heartbeat.objects.create(queue="weir.fetch")
    Heartbeat.objects.create(queue="weir.mail", beat_at=Now() - heartbeats.FRESH)
    assert heartbeats.silent_queues() == ["default", "weir.ticks", "weir.maintenance", "weir.mail"]


def test_none_is_overdue_right_after_the_start() -> None:
    """No heartbeat has come yet, and the last one is of yesterday."""
    Heartbeat.objects.create(queue="weir.mail", beat_at=Now() - timedelta(days=1))
    for kind in KINDS:
        known(kind, timedelta(seconds=70))
    assert heartbeats.silent_queues() == []


def test_none_is_overdue_right_after_its_workers_started() -> None:
    """Those of other queues have run for long."""
    for kind in KINDS:
        known(kind, timedelta(seconds=70) if kind == "fetcher" else LONG_AGO)
    assert heartbeats.silent_queues() == ["default", "weir.ticks", "weir.maintenance", "weir.mail"]


def test_one_that_is_started_again_and_again_is_not_new() -> None:
    """It was killed each time, and is known for an hour."""
    for kind in KINDS:
        known(kind, LONG_AGO)
        known(kind, timedelta(seconds=10), f"{kind}.2")
    assert heartbeats.silent_queues() == [*schedule.queues()]
