"""A throttled task starts in its site's slot, however it is run, and however it was made a task."""

from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError

from tests.integration.conftest import Eventually, InThreads
from tests.integration.throttled import one_worker
from tests.integration.throttled.one_worker import SITE, Broker, Planned, arguments, close_site, started, work
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.throttle import throttle
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.publishing import publish_due

KINDS = ("plain", "bound", "of_the_app", "by_class", "late", "autoretrying")
INTERVAL = 0.1


def far_away() -> None:
    """Reserve the site for an hour."""
    site_settings.set_rate(SITE, "1/h")
    slots.reserve(SITE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_of_any_kind_starts_at_once_in_a_free_site(kind: str, broker: Broker) -> None:
    """Its slot is used, and no row was needed."""
    getattr(one_worker, kind).delay(7)
    assert work(broker.next()) == "SUCCESS"
    assert [(start.task, start.arguments[0]) for start in started] == [(kind, 7)]
    assert Slot.objects.get().finished_at is not None
    assert PostponedTask.objects.order_by().count() == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["called", "applied"])
def test_a_call_of_a_task_waits_for_its_slot(kind: str, way: str, broker: Broker, eventually: Eventually) -> None:
    """A direct call and `apply` start in a slot of their own, an interval after the last."""
    task = getattr(one_worker, kind)
    for _ in range(2):
        task(7) if way == "called" else task.apply((7,))
    first, second = started
    assert second.at - first.at >= INTERVAL
    eventually(lambda: Slot.objects.filter(finished_at__isnull=False).count() == 2, "both slots to be noted")
    assert not broker.messages


@pytest.mark.parametrize(
    "call",
    [one_worker.plain, lambda number: one_worker.plain.apply((number,)).get()],
    ids=["called", "applied"],
)
def test_the_caller_of_a_task_gets_the_refusal(call: Any, broker: Broker) -> None:
    """There is no message to postpone: SlotTooFar, with the time to wait, reaches the caller."""
    far_away()
    with pytest.raises(slots.SlotTooFar) as refusal:
        call(7)
    assert refusal.value.retry_after > 3_500
    assert not started
    assert not broker.messages
    assert not PostponedTask.objects.exists()


def test_workers_keep_the_interval_between_them(broker: Broker, in_threads: InThreads, eventually: Eventually) -> None:
    """However many workers there are, starts at one site are an interval apart."""

    def all_started() -> bool:
        """Tell whether they did, also those that were postponed, as this process stood still in their slots."""
        publish_due()
        while broker.messages:
            work(broker.next())
        return len(started) == 12

    for number in range(12):
        one_worker.plain.delay(number)
    in_threads(3, lambda _number: [work(broker.next()) for _ in range(4)])
    eventually(all_started, "all tasks to start")
    assert sorted(arguments()) == list(range(12))
    assert min(later.at - earlier.at for earlier, later in pairwise(started)) >= INTERVAL


def test_a_function_names_the_site_by_the_tasks_arguments(broker: Broker, eventually: Eventually) -> None:
    """It gets what the task gets, but a bound `self`; each site has its own pace."""
    one_worker.by_argument.delay("a.example", page=1)
    one_worker.by_argument.delay("B.example.", page=2)
    assert [work(broker.next()) for _ in range(2)] == ["SUCCESS"] * 2
    assert [start.arguments[:2] for start in started] == [("a.example", 1), ("B.example.", 2)]
    assert set(Site.objects.exclude(name=SITE).values_list("name", flat=True)) == {"a.example", "b.example"}
    one_worker.by_argument("a.example", page=3)
    used = Slot.objects.filter(site__name="a.example", finished_at__isnull=False)
    eventually(lambda: used.count() == 2, "both slots of the site to be noted")


@pytest.mark.parametrize("named", [None, 7, "https://a.example/path", ""])
def test_a_function_that_names_no_site_fails_the_task(named: object, broker: Broker, caplog: Any) -> None:
    """The task fails with a sentence that says what is expected, and does not start."""
    one_worker.by_argument.delay(named)
    assert work(broker.next()) == "FAILURE"
    assert "host" in caplog.text
    assert repr(named) in caplog.text
    assert not started


def test_a_task_that_asks_to_be_run_again_waits_for_a_slot_each_time(broker: Broker) -> None:
    """`self.retry` sends a new message, which is throttled like any other."""
    one_worker.retrying.delay(7)
    assert work(broker.next()) == "RETRY"
    assert work(broker.next()) == "SUCCESS"
    assert [start.arguments for start in started] == [(7, 0), (7, 1)]
    assert started[1].at - started[0].at >= INTERVAL


def test_a_refusal_that_the_task_itself_runs_into_is_its_own(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SlotTooFar out of the task's code fails the task; it is not put back, for it has started."""

    def refused(_task: str, *_arguments: object) -> None:
        site_settings.set_rate("other.example", "1/h")
        slots.reserve("other.example")
        with throttle("other.example", max_wait=0):
            pytest.fail("It started.")

    monkeypatch.setattr(one_worker, "note", refused)
    one_worker.plain.delay(7)
    assert work(broker.next()) == "FAILURE"
    assert not PostponedTask.objects.exists()


def test_a_task_that_runs_itself_again_waits_like_a_caller(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """`task.run` within the task is a second start of the same message: it gets a slot, and is never put back."""
    note = one_worker.note

    def again(task: str, number: int) -> None:
        note(task, number)
        if number:
            one_worker.plain.run(number - 1)

    monkeypatch.setattr(one_worker, "note", again)
    one_worker.plain.delay(2)
    assert work(broker.next()) == "SUCCESS"
    assert arguments() == [2, 1, 0]
    assert min(later.at - earlier.at for earlier, later in pairwise(started)) >= INTERVAL


def test_a_task_that_runs_itself_again_is_refused_like_a_caller(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that is too far away for the second start is its error: nothing is put back that has started."""

    def again(_task: str, number: int) -> None:
        if number:
            close_site(60)
            one_worker.plain.run(0)

    monkeypatch.setattr(one_worker, "note", again)
    one_worker.plain.delay(1)
    assert work(broker.next()) == "FAILURE"
    assert not PostponedTask.objects.exists()


def test_an_error_while_waiting_is_covered_by_autoretry(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Celery's `autoretry_for` names is retried, whether it comes from the task or from its wait."""

    def broken(*_arguments: object, **_options: object) -> None:
        raise Planned

    with monkeypatch.context() as down:
        down.setattr("weir.workers.throttled.waiting.throttle", broken)
        one_worker.autoretrying.delay(7)
        assert work(broker.next()) == "RETRY"
    assert work(broker.next()) == "SUCCESS"
    assert arguments() == [7]


def test_a_call_inside_a_transaction_is_refused() -> None:
    """A wait would hold the transaction's locks."""
    started.clear()
    with pytest.raises(TransactionManagementError), transaction.atomic():
        one_worker.plain(7)
    assert not started
