"""What a worker does with a task that cannot start at once: it waits, with a row behind it, or puts the task back."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, connections

from tests.integration.conftest import Eventually, WaitersOf, database_now
from tests.integration.throttled import one_worker
from tests.integration.throttled.one_worker import (
    MAX_WAIT,
    SITE,
    Broker,
    arguments,
    close_site,
    expire_leases,
    open_site,
    postponed,
    started,
    work,
)
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.workers.throttled import postponing, waiting
from weir.workers.throttled.models import PostponedTask
from weir.workers.throttled.postponing import HEADER, SILENCE
from weir.workers.throttled.publishing import publish_due


@pytest.fixture
def no_wait_without_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every wait, however short, worth a row."""
    monkeypatch.setattr(waiting, "AT_ONCE", 0.0)


def interrupting(error: BaseException) -> Callable[[float], None]:
    """Return a `sleep` that ends like this."""

    def interrupted(_seconds: float) -> None:
        raise error

    return interrupted


# --- putting back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "bound", "of_the_app", "by_class", "late", "autoretrying"])
def test_a_task_whose_slot_is_too_far_away_is_put_back(kind: str, broker: Broker) -> None:
    """Its row is committed, its message done with, and none is sent: no ETA, no countdown."""
    [row] = postponed(broker, 7, task=getattr(one_worker, kind))
    task = PostponedTask.objects.get()
    assert (task.pk, task.site, task.task) == (row, SITE, getattr(one_worker, kind).name)
    assert (task.max_wait, task.published_at, task.held_by, task.publications) == (MAX_WAIT, None, None, 0)
    assert not broker.messages
    assert not started


def test_a_task_that_was_put_back_is_published_and_starts(broker: Broker) -> None:
    """When its turn has come it gets a message again; the row stays until it starts."""
    [row] = postponed(broker, 7)
    assert publish_due() == 1
    assert PostponedTask.objects.get().published_at is not None
    message = broker.next()
    assert message.about == ("tests.plain", [7])
    assert message.headers["eta"] is None
    assert message.headers[HEADER] == [row, 0]
    assert work(message) == "SUCCESS"
    assert arguments() == [7]
    assert not PostponedTask.objects.exists()


def test_a_task_of_a_covered_host_waits_in_the_site_that_covers_it(broker: Broker) -> None:
    """With the others of that site, in their order; it gets no site of its own."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(milliseconds=200), covers_subdomains=True)
    hosts = [f"www.{SITE}", SITE, f"shop.{SITE}"]
    close_site(60)
    for host in hosts:
        one_worker.by_argument.delay(host)
        assert work(broker.next()) == "IGNORED"
    assert list(PostponedTask.objects.values_list("site", flat=True)) == [SITE] * 3
    open_site()
    assert publish_due() == 3
    assert [work(broker.next()) for _ in range(3)] == ["SUCCESS"] * 3
    assert arguments() == hosts
    assert list(Site.objects.values_list("name", flat=True)) == [SITE]


def test_a_task_follows_its_host_to_a_site_of_its_own(broker: Broker) -> None:
    """It has been waiting at the site that covered the host, which stays closed."""
    host = f"www.{SITE}"
    site_settings.set_rate(SITE, "10/s", grace=timedelta(milliseconds=200), covers_subdomains=True)
    site_settings.pause(SITE)
    for name in (host, SITE):
        one_worker.by_argument.delay(name)
        assert work(broker.next()) == "IGNORED"
    site_settings.set_rate(host, "10/s", grace=timedelta(milliseconds=200))
    assert publish_due() == 1
    assert work(broker.next()) == "SUCCESS"
    assert arguments() == [host]
    assert Slot.objects.get().site.name == host


@pytest.mark.parametrize("rate", ["10/s", "1/h"])
def test_a_task_that_was_published_before_the_split_starts_at_the_site_of_its_host(rate: str, broker: Broker) -> None:
    """Its worker looks the site up again: the task starts in a slot of its own site, or waits there."""
    host = f"www.{SITE}"
    site_settings.set_rate(SITE, "10/s", grace=timedelta(milliseconds=200), covers_subdomains=True)
    close_site(60)
    one_worker.by_argument.delay(host)
    assert work(broker.next()) == "IGNORED"
    open_site()
    assert publish_due() == 1
    site_settings.set_rate(host, rate, grace=timedelta(milliseconds=200))
    assert work(broker.next()) == ("SUCCESS" if rate == "10/s" else "IGNORED")
    assert set(Slot.objects.values_list("site__name", flat=True)) == ({host} if rate == "10/s" else set())
    assert set(PostponedTask.objects.values_list("site", flat=True)) == (set() if rate == "10/s" else {host})


def test_nothing_of_the_message_is_lost_on_the_way(broker: Broker) -> None:
    """What comes out is what went in: id, group, chord, links, limits, queue, priority, headers, arguments."""
    close_site(60)
    task: Any = one_worker.bound
    task.apply_async(
        (7,),
        {},
        task_id="the-id",
        link=one_worker.plain.s(),
        link_error=one_worker.plain.si(3),
        expires=3_600,
        time_limit=90,
        soft_time_limit=80,
        queue="weir.fetch",
        priority=3,
        headers={"mine": {"a": [1]}},
        group_id="the-group",
        group_index=2,
        root_id="the-root",
        parent_id="the-parent",
        chord=one_worker.plain.s(),
        chain=[one_worker.plain.s(9)],
        shadow="a name",
        retries=1,
    )
    sent = broker.next()
    assert work(sent) == "IGNORED"
    open_site()
    publish_due()
    again = broker.next()
    del again.headers[HEADER]
    assert again.headers == sent.headers
    assert again.body == sent.body
    assert (again.routing_key, again.priority) == ("weir.fetch", 3) == (sent.routing_key, sent.priority)


def test_arguments_of_every_kind_that_celery_takes_survive(broker: Broker) -> None:
    """What Celery's JSON can carry, a row can: times, UUIDs, text that PostgreSQL would not take as it is."""
    odd = {"at": database_now(), "text": "\0 \ud800 ☃", "bytes": b"\x00\xff"}
    one_worker.note_anything.delay(odd)
    close_site(60)
    sent = broker.next()
    assert work(sent) == "IGNORED"
    open_site()
    publish_due()
    again = broker.next()
    assert again.body == sent.body
    assert work(again) == "SUCCESS"
    assert arguments() == [odd]


def test_a_retry_of_a_postponed_task_is_a_message_of_its_own(broker: Broker) -> None:
    """It inherits the headers of the one before, but is not taken for it: it starts, or is put back, like a new one."""
    postponed(broker, 7, task=one_worker.retrying)
    publish_due()
    assert work(broker.next()) == "RETRY"
    retry = broker.next()
    assert retry.headers["retries"] == 1
    close_site(60)
    assert work(retry) == "IGNORED"
    open_site()
    assert publish_due() == 1
    assert work(broker.next()) == "SUCCESS"
    assert [start.arguments for start in started] == [(7, 0), (7, 1)]
    assert not PostponedTask.objects.exists()


def test_a_task_that_comes_while_others_wait_goes_behind_them(broker: Broker) -> None:
    """A slot within `max_wait` is no reason to go before those that wait in PostgreSQL."""
    first, second = postponed(broker, 1, 2)
    close_site(1.5)
    one_worker.plain.delay(3)
    assert work(broker.next()) == "IGNORED"
    waits = PostponedTask.objects.order_by("not_before", "pk").values_list("pk", flat=True)
    assert list(waits)[:2] == [first, second]
    assert len(waits) == 3


def test_a_published_task_that_finds_its_site_reserved_waits_again_at_its_place(broker: Broker) -> None:
    """Others were faster: nothing is lost but the message, and it is still the first of its site."""
    first, _ = postponed(broker, 1, 2)
    publish_due()
    place = PostponedTask.objects.get(pk=first).not_before
    close_site(60)
    assert work(broker.next()) == "IGNORED"
    task = PostponedTask.objects.get(pk=first)
    assert (task.published_at, task.held_by, task.lease_until, task.not_before) == (None, None, None, place)
    assert not started


# --- waiting with a row -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_wait_without_a_row")
def test_a_task_that_waits_in_a_worker_has_a_row_until_it_starts(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is held while the worker waits, so it is not published; it is deleted when the task starts."""
    rows: list[tuple[bool, bool]] = []
    sleep = time.sleep

    def watched(seconds: float) -> None:
        task = PostponedTask.objects.get()
        rows.append((task.held_by is not None, task.lease_until is not None))
        assert publish_due() == 0
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", watched)
    monkeypatch.setattr(one_worker, "note", lambda *_: rows.append((PostponedTask.objects.exists(), True)))
    close_site(0.3)
    one_worker.plain.delay(7)
    assert work(broker.next()) == "SUCCESS"
    assert rows[0] == (True, True)
    assert rows[-1] == (False, True)


def test_a_wait_of_less_than_a_second_needs_no_row(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual case writes nothing but its slot."""
    monkeypatch.setattr(postponing, "hold", lambda *_: pytest.fail("It wrote a row."))
    close_site(0.3)
    one_worker.plain.delay(7)
    assert work(broker.next()) == "SUCCESS"


@pytest.mark.usefixtures("no_wait_without_a_row")
@pytest.mark.parametrize("was_published", [False, True])
def test_a_worker_that_is_killed_while_it_waits_loses_nothing(
    was_published: bool, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row outlives it: when the lease is over, the task is published again, and starts once."""
    if was_published:
        postponed(broker, 7)
        publish_due()
    else:
        one_worker.plain.delay(7)
    close_site(1)
    with monkeypatch.context() as dying:
        dying.setattr(time, "sleep", interrupting(SystemExit()))
        with pytest.raises(SystemExit):
            work(broker.next())
    open_site()
    task = PostponedTask.objects.get()
    assert task.lease_until is not None
    left = task.lease_until - database_now()
    assert timedelta(seconds=SILENCE) < left <= timedelta(seconds=MAX_WAIT + SILENCE)
    assert publish_due() == 0
    expire_leases()
    assert publish_due() == 1
    assert work(broker.next()) == "SUCCESS"
    assert arguments() == [7]
    assert not PostponedTask.objects.exists()


@pytest.mark.usefixtures("no_wait_without_a_row")
def test_a_time_limit_that_ends_the_wait_fails_the_task_and_its_row_goes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed, as Celery says: it does not come again."""
    close_site(5)
    one_worker.plain.delay(7)
    with monkeypatch.context() as limited:
        limited.setattr(time, "sleep", interrupting(SoftTimeLimitExceeded()))
        assert work(broker.next()) == "FAILURE"
    assert not PostponedTask.objects.exists()


@pytest.mark.parametrize("during", ["take", "wait"])
def test_without_postgresql_a_task_is_left_to_its_row(
    during: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker cannot say anything about the task, so it does not; it comes again when the lease is over."""
    postponed(broker, 7)
    publish_due()

    def lost(*_arguments: object, **_options: object) -> None:
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as down:
        if during == "take":
            down.setattr(postponing, "TAKE", lost)
        else:
            down.setattr(slots, "RESERVE", lost)
        assert work(broker.next()) == "IGNORED"
    expire_leases()
    assert publish_due() == 1
    assert work(broker.next()) == "SUCCESS"
    assert arguments() == [7]


def test_without_postgresql_a_new_task_fails(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the message knows of it, and Celery is told."""

    def lost(*_arguments: object, **_options: object) -> None:
        raise OperationalError("the connection is lost")

    one_worker.plain.delay(7)
    monkeypatch.setattr(slots, "RESERVE", lost)
    assert work(broker.next()) == "FAILURE"


# --- the start ----------------------------------------------------------------------------------------------------


def test_a_slot_that_is_over_when_the_row_is_gone_is_not_used(
    broker: Broker,
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
) -> None:
    """Deleting the row took too long: the task waits for another slot, and starts in that."""
    [row] = postponed(broker, 7)
    publish_due()
    reached: list[float] = []
    take = postponing.take

    def worker() -> None:
        try:
            assert work(broker.next()) == "SUCCESS"
        finally:
            connections.close_all()

    def take_and_block(*given: Any, **options: Any) -> Any:
        place = take(*given, **options)
        other_connection.execute("SELECT id FROM weir_throttled_postponedtask WHERE id = %s FOR UPDATE", [row])
        return place

    with pytest.MonkeyPatch.context() as blocked:
        blocked.setattr(postponing, "take", take_and_block)
        thread = threading.Thread(target=worker)
        thread.start()
        eventually(lambda: waiters(other_connection), "the row to be deleted")
        eventually(slot_is_over, "the slot to be over")
        reached.append(time.monotonic())
        other_connection.rollback()
        thread.join(20)
    assert arguments() == [7]
    assert started[0].at >= reached[0]
    finished = Slot.objects.filter(finished_at__isnull=False).order_by("start_time")
    eventually(lambda: finished.count() == 2, "both slots to be noted")
    assert finished[0].use_until < finished[1].start_time <= database_now()


def slot_is_over() -> bool:
    """Tell whether the only slot may be used no longer."""
    return Slot.objects.get().use_until < database_now()
