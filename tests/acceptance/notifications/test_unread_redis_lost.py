"""Redis loses its memory, or is gone for a while, under load: numbers are exact again by themselves."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings as django_settings
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tests.acceptance.conftest import Cluster
from tests.acceptance.notifications import unread_processes as roles
from tests.acceptance.processes import Processes
from tests.waiting import comes_true, in_time, wait_for
from weir.notifications import inbox
from weir.notifications.models import Reconciliation
from weir.notifications.reconciliation import drift
from weir.redis_link import calls
from weir.workers import task_names

BUSY, QUIET = range(1, 201), range(1001, 1101)
AT_LENGTH = "WEIR_FAULTS" in os.environ
# Passes by the schedule as it is installed, each ten seconds, or by one of an operator's own.
PASS_EVERY_S, EXACT_WITHIN_S = (10, 60.0) if AT_LENGTH else (2, 30.0)
FLUSHALL, DOWN = "FLUSHALL", "down for a while, empty afterwards"
LOSSES = [FLUSHALL, DOWN] if AT_LENGTH else [FLUSHALL]


@pytest.fixture
def processes(cluster: Cluster, tmp_path: Path) -> Iterator[Processes]:
    """Writers, and a cluster that flushes and reconciles by its schedule, on the cluster's Valkey."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(django_settings, "REDIS_URL", cluster.environment["REDIS_URL"])
        calls.forget()
        made = Processes(tmp_path, roles.__name__, "REDIS_URL")
        try:
            yield made
        finally:
            made.close()
    calls.forget()


def trusted() -> bool:
    return Reconciliation.objects.filter(trusted=True).exists()


def trusts_another(incarnation: str) -> bool:
    """Return whether a Redis of another incarnation than this one is trusted."""
    return Reconciliation.objects.filter(trusted=True).exclude(incarnation=incarnation).exists()


def exact(users: range) -> bool:
    """Return whether all numbers are right by deltas and what was flushed, without counting rows."""
    seen = drift.look(users)
    return not seen.differing and not seen.moving


@pytest.mark.faults
@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_are_exact_again_within_a_minute(cluster: Cluster, processes: Processes, loss: str) -> None:
    """Beat and worker notice it by themselves. Numbers that do not change are never shown wrong meanwhile."""
    every, _ = IntervalSchedule.objects.get_or_create(every=PASS_EVERY_S, period=IntervalSchedule.SECONDS)
    assert PeriodicTask.objects.filter(task=task_names.RECONCILE_UNREAD).update(interval=every) == 1
    cluster.start_together("ticks", "maintenance", "beat")
    for seed in range(2):
        processes.start(roles.write, BUSY, seed, processes.stop)
    wait_for(trusted, 60, "Redis to be trusted")
    inbox.notify_many([*QUIET, *QUIET], "news", "Hello")
    known = Reconciliation.objects.get().incarnation

    began = time.monotonic()
    if loss == FLUSHALL:
        inbox.notify_many(QUIET, "news", "Lost")
        with redis.Redis.from_url(django_settings.REDIS_URL) as client:
            client.flushall()
    else:
        cluster.stop_broker()
        inbox.notify_many(QUIET, "news", "Missed")
        time.sleep(5)  # it is down for this long
        cluster.start_broker()
    reads = 0
    while not trusts_another(known):
        assert set(inbox.unread_counts(QUIET).values()) == {2}
        reads += len(QUIET)
        assert time.monotonic() - began < EXACT_WITHIN_S
    trusted_s = time.monotonic() - began
    processes.finish()
    assert comes_true(lambda: exact(BUSY), 2 * EXACT_WITHIN_S)
    exact_s = time.monotonic() - began
    in_time(exact_s < EXACT_WITHIN_S, "the numbers of users who were busy all the time")

    print(
        f"\n{loss}: trusted again after {trusted_s:.1f} s, exact after {exact_s:.1f} s, {reads} reads of known numbers"
    )
    assert exact(QUIET)
    assert inbox.unread_counts(BUSY) == roles.count_rows(BUSY)
