"""Messages come twice, or late, and workers die: a task starts once, unless it asked to be run again (acks_late)."""

import time
from typing import Any

import pytest
from celery.exceptions import Ignore

from tests.integration.conftest import InThreads
from tests.integration.throttled import one_worker
from tests.integration.throttled.one_worker import (
    MAX_WAIT,
    Broker,
    arguments,
    close_site,
    expire_leases,
    postponed,
    started,
    work,
)
from weir.ratelimit.models import Slot
from weir.workers.throttled import postponing
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.publishing import publish_due


def test_a_message_that_comes_twice_runs_once(broker: Broker) -> None:
    """The second finds no row, and takes no slot."""
    postponed(broker, 7)
    publish_due()
    message = broker.next()
    assert [work(message), work(message)] == ["SUCCESS", "IGNORED"]
    assert arguments() == [7]
    assert Slot.objects.count() == 1


def test_a_message_that_comes_while_another_worker_holds_the_task_is_ignored(broker: Broker) -> None:
    """It does not even wait."""
    [row] = postponed(broker, 7)
    publish_due()
    assert postponing.take(row, MAX_WAIT)
    assert work(broker.next()) == "IGNORED"
    assert not started
    assert PostponedTask.objects.exists()


def test_a_holder_whose_lease_is_over_does_not_start_the_task(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was stalled for long finds that its row is another's."""
    [row] = postponed(broker, 7)
    publish_due()
    close_site(0.3)
    sleep = time.sleep

    def stalled(seconds: float) -> None:
        sleep(seconds)
        expire_leases()
        assert postponing.take(row, MAX_WAIT)

    with monkeypatch.context() as stall:
        stall.setattr(time, "sleep", stalled)
        assert work(broker.next()) == "IGNORED"
    assert not started
    assert PostponedTask.objects.get().held_by is not None


def test_of_many_that_take_a_row_at_once_one_gets_it(broker: Broker, in_threads: InThreads) -> None:
    """However many copies of a message are worked on together."""
    [row] = postponed(broker, 7)
    publish_due()
    places = in_threads(6, lambda _number: postponing.take(row, MAX_WAIT))
    assert sum(place is not None for place in places) == 1


@pytest.mark.parametrize(("task", "state"), [(one_worker.plain, "IGNORED"), (one_worker.late, "SUCCESS")])
def test_a_worker_that_is_killed_after_the_start(task: Any, state: str, broker: Broker) -> None:
    """The row is gone. With acks_late the broker brings the message again, and the task runs again, as it wants to."""
    postponed(broker, 7, task=task)
    publish_due()
    message = broker.next()
    work(message)
    assert work(message, redelivered=True) == state
    assert arguments() == ([7, 7] if state == "SUCCESS" else [7])


def test_a_message_that_the_broker_delivers_again_takes_the_row_from_a_dead_worker(broker: Broker) -> None:
    """It need not wait for the lease; and should the worker live after all, it finds the row gone."""
    [row] = postponed(broker, 7, task=one_worker.late)
    publish_due()
    place = postponing.take(row, MAX_WAIT)
    assert place
    assert work(broker.next(), redelivered=True) == "SUCCESS"
    assert arguments() == [7]
    with pytest.raises(Ignore):
        postponing.start(place, slot=1)


def test_deleting_the_row_cancels_the_task(broker: Broker) -> None:
    """Its message, if there is one, starts nothing."""
    postponed(broker, 1)
    publish_due()
    PostponedTask.objects.all().delete()
    assert work(broker.next()) == "IGNORED"
    assert not started
