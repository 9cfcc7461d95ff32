"""Fetches and tasks that wait for the same site both go on, whichever of dispatch and publishing ticks first."""

from datetime import timedelta
from random import Random

import pytest
from pytest_django import Settings

from tests.integration.conftest import database_now
from tests.integration.still_clock import stopped
from tests.integration.throttled.one_worker import SITE, Broker
from tests.integration.throttled.test_publishing import waiting
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site
from weir.workers import task_names
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.schedule import REFILL, TRAVEL, tick_of
from weir.workers.throttled import postponing, publishing
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.publishing import publish_due

GRACE = timedelta(milliseconds=25)
PLENTY = 500
TICKS = 40
LEAST = 0.1  # of the slots that were used


@pytest.fixture(autouse=True)
def _dice(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:  # noqa: ARG001  asked for its effect
    """Draw the same lots each time."""
    monkeypatch.setattr(publishing, "random", Random(7).random)  # noqa: S311  a lot


def reserve_all(broker: Broker) -> int:
    """Do what workers do at once with the messages that came: take the rows, and reserve; the tasks start in time."""
    rows = [
        message.headers[postponing.HEADER][0] for message in broker.messages if postponing.HEADER in message.headers
    ]
    broker.messages.clear()
    for row in rows:
        assert postponing.take(row, 10.0)
        slots.reserve(SITE)
    PostponedTask.objects.filter(pk__in=rows).delete()
    return len(rows)


def played(broker: Broker, apart: float) -> tuple[int, int]:
    """Let dispatch tick, and publishing so much later each time; returns how many tasks and fetches got slots."""
    tasks = 0
    with stopped() as clock:
        for tick in range(TICKS):
            clock.move_to(tick)
            dispatch()
            clock.move_to(tick + apart)
            publish_due()
            tasks += reserve_all(broker)
    return tasks, Fetch.objects.filter(state=FetchState.RESERVED).count()


@pytest.mark.parametrize("apart", [0.05, 0.95])
@pytest.mark.parametrize(("rate", "a_second"), [("10/s", 10.0), ("2/s", 2.0), ("1/2s", 0.5)])
def test_fetches_and_tasks_both_get_slots_of_a_site_at_which_both_wait(
    rate: str, a_second: float, apart: float, broker: Broker
) -> None:
    """Neither the backlog of one nor that of the other is cleared first; nor is the site left unused."""
    site_settings.set_rate(SITE, rate, grace=GRACE)
    request_fetches([f"http://{SITE}/"] * PLENTY)
    waiting(PLENTY)
    tasks, fetches = played(broker, apart)
    print(f"{rate}, {apart} s apart: {tasks} tasks, {fetches} fetches")
    assert min(tasks, fetches) >= LEAST * (tasks + fetches)
    assert 0.75 * TICKS * a_second <= tasks + fetches


def test_tasks_do_not_wait_for_fetches_that_are_not_there(broker: Broker) -> None:
    """In a site without fetches each tick publishes whatever can start before the next."""
    site_settings.set_rate(SITE, "2/s", grace=GRACE)
    waiting(PLENTY)
    tasks, fetches = played(broker, 0.5)
    assert (fetches, Site.objects.get().has_backlog) == (0, False)
    assert tasks >= 0.9 * TICKS * 2


@pytest.mark.parametrize("lookahead", [1.0, 3.0])
def test_a_site_that_dispatch_has_left_free_goes_to_tasks(
    lookahead: float, settings: Settings, monkeypatch: pytest.MonkeyPatch, broker: Broker
) -> None:
    """A tick that leaves the site to dispatch publishes all the same where dispatch had its turn, and took nothing."""
    settings.WEIR_LOOKAHEAD = lookahead
    monkeypatch.setattr(publishing, "FETCHES_FIRST", 1.0)
    site_settings.set_rate(SITE, "2/s", grace=GRACE)
    waiting(1)
    Site.objects.update(has_backlog=True)
    slots.reserve(SITE, 2)
    slots.reserve(SITE)
    assert publish_due() == 0
    Site.objects.update(next_start=database_now())
    assert publish_due() == 1
    assert [message.about for message in broker.messages] == [("tests.plain", [0])]


def test_publishing_looks_farther_than_a_site_is_reserved_when_dispatch_refills_it() -> None:
    """By a tick, for the one that comes before dispatch's; and by the time that a message takes."""
    assert pytest.approx(2.6) == publishing.LOOKAHEAD
    assert REFILL + tick_of(task_names.DISPATCH) + TRAVEL <= publishing.LOOKAHEAD
