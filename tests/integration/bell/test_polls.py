"""Polls: an unchanged number costs one Redis call and no statement; a changed one is never hidden by a 304."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.test import override_settings
from pytest_django import Settings

from tests.integration.bell.conftest import Costs, Tab, flushed
from tests.integration.notifications.unread import make_wrong, redis_out_of_reach, unread_rows
from tests.valkeys import valkeys
from weir.notifications import counters, flush, inbox, reconcile, watching
from weir.notifications.inbox import read_marks, writing
from weir.notifications.models import Doubt, Notification
from weir.notifications.reconciliation import doubts
from weir.notifications.removal import cap, expiry
from weir.notifications.web import polls
from weir.postgres.timeline import gate
from weir.redis_link import calls
from weir.redis_link.keys import keys

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey", "reconcile_at_once"),
]
Tabs = Callable[[], Tab]


@pytest.fixture
def kim(tab: Tabs) -> Tab:
    """Return a tab whose user has three unread notifications, and which knows so."""
    opened = tab()
    for number in range(3):
        inbox.notify(opened.user, "news", f"Number {number}")
    flushed()
    flushed()
    assert opened.poll() == 200
    assert opened.unread == 3
    return opened


def test_ten_unchanged_polls_are_ten_calls_and_no_statement(kim: Tab, costs: Costs) -> None:
    """By the servers' own counts; meanwhile other users are notified, and their deltas flushed."""
    with costs() as cost:
        assert [kim.poll() for _ in range(10)] == [304] * 10
    assert (cost.calls, cost.asked_postgresql) == (10, False)
    for _ in range(3 * watching.PASTS):  # more flushes than Redis keeps: each answer knows the epoch of its moment
        inbox.notify(kim.user + 1, "news", "For somebody else")
        flushed()
        with costs() as cost:
            assert kim.poll() == 304
        assert (cost.calls, cost.asked_postgresql) == (1, False)


def test_what_waits_in_redis_may_wait(kim: Tab, costs: Costs) -> None:
    """The first poll after a change has the delta in Redis; flushing it changes no number, and costs no statement."""
    inbox.notify(kim.user, "news", "One more")
    assert (kim.poll(), kim.unread) == (200, 4)
    with costs() as cost:
        assert kim.poll() == 304
    assert (cost.calls, cost.asked_postgresql) == (1, False)
    assert counters.seal()
    with costs() as cost:
        assert kim.poll() == 304
    assert (cost.calls, cost.asked_postgresql) == (1, False)
    flushed()
    with costs() as cost:
        assert [kim.poll(), kim.poll()] == [304, 304]
    assert (cost.calls, cost.asked_postgresql) == (2, False)


def _read_one(user: int) -> None:
    inbox.mark_read(user, [inbox.page(user)[0].pk])


def _unread_one(user: int) -> None:
    """Mark one as unread that was read before the kept number: the fixture's rows are all unread."""
    read = Notification.objects.create(user_id=user, kind="news", title="Read", read_at=datetime.now(UTC))
    assert inbox.mark_unread(user, [read.pk]) == 1


def _read_many(user: int) -> None:
    """Set a read mark, which changes no row's own `read_at`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writing, "MOST_MARKED", 1)
        inbox.mark_all_read(user)


def _expire(user: int) -> None:
    Notification.objects.filter(user_id=user).update(expires_at=datetime.now(UTC) - timedelta(hours=1))
    assert expiry.delete_expired() == 3


def _cap(user: int) -> None:
    with override_settings(WEIR_UNREAD_CAP=1):
        inbox.notify(user, "news", "One more")
        flushed()
        assert cap.trim() == 3


def _give_away(user: int) -> None:
    Notification.objects.filter(user_id=user).update(user_id=user + 1)


def _flushed_before_the_next_poll(user: int) -> None:
    inbox.notify(user, "news", "One more")
    flushed()
    flushed()


def _in_a_later_epoch(user: int) -> None:
    inbox.notify(user + 1, "news", "For somebody else")
    flushed()
    _flushed_before_the_next_poll(user)


def _in_more_epochs_than_are_kept(user: int) -> None:
    for _ in range(2 * watching.PASTS):
        inbox.notify(user + 1, "news", "For somebody else")
        flushed()
    inbox.notify(user, "news", "One more")
    for _ in range(2 * watching.PASTS):
        inbox.notify(user + 1, "news", "For somebody else")
        flushed()


def _in_a_large_epoch(user: int) -> None:
    inbox.notify_many(range(user, user + 10_001), "news", "For everybody")
    flushed()
    flushed()


CHANGES = {
    "notify": lambda user: inbox.notify(user, "news", "One more"),
    "notify_many": lambda user: inbox.notify_many([user, user + 1], "news", "One more"),
    "read": _read_one,
    "read all": inbox.mark_all_read,
    "read all, by a mark": _read_many,
    "unread": _unread_one,
    "delete": lambda user: Notification.objects.filter(user_id=user).first().delete(),  # type: ignore[union-attr]
    "update": _give_away,
    "expiry": _expire,
    "cap": _cap,
    "flush": _flushed_before_the_next_poll,
    "later epoch": _in_a_later_epoch,
    "many epochs": _in_more_epochs_than_are_kept,
    "large epoch": _in_a_large_epoch,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("polled", [False, True], ids=["first poll", "after polls"])
def test_a_change_is_never_hidden(kim: Tab, change: str, *, polled: bool) -> None:
    """The first poll after it has the new number, which is the count of the rows; so has the first after each flush."""
    if polled:
        assert [kim.poll() for _ in range(3)] == [304] * 3
    CHANGES[change](kim.user)
    assert inbox.unread_count(kim.user) != 3
    assert kim.poll() == 200
    assert kim.unread == inbox.unread_count(kim.user)
    if change != "read all, by a mark":
        assert kim.unread == unread_rows(kim.user)[kim.user]
    for _ in range(3):
        flushed()
        kim.poll()
        assert kim.unread == inbox.unread_count(kim.user)


def test_a_mark_is_seen_at_its_end_too(kim: Tab) -> None:
    """While a read mark covers rows, they are counted, and no poll is answered by Redis."""
    _read_many(kim.user)
    assert (kim.poll(), kim.unread) == (200, 0)
    inbox.notify(kim.user, "news", "One more")
    assert (kim.poll(), kim.unread) == (200, 1)
    assert read_marks.settle() == 3
    for _ in range(3):
        kim.poll()
        assert kim.unread == 1
        flushed()


def test_changes_that_come_to_nothing_may_be_hidden(kim: Tab) -> None:
    """The number is the same; the list has requests of its own."""
    inbox.notify(kim.user, "news", "One more")
    _read_one(kim.user)
    assert kim.poll() == 304
    assert inbox.unread_count(kim.user) == 3


def test_a_rolled_back_change_is_none(kim: Tab) -> None:
    """It changes no number."""
    with suppress(LookupError), transaction.atomic():
        inbox.notify(kim.user, "news", "Goes")
        raise LookupError
    assert kim.poll() == 304


def test_a_repair_is_never_hidden(kim: Tab) -> None:
    """A number that was wrong, and remembered so, is shown when it is right."""
    make_wrong(kim.user)
    assert kim.poll() == 304  # as wrong as unread_count, until a pass has looked
    assert inbox.unread_count(kim.user) == 3
    report = reconcile.run_pass()
    assert report
    assert report.repaired.first == {kim.user: 1}
    assert (kim.poll(), kim.unread) == (200, 4)


def test_a_repair_of_a_killed_reconciler_is_seen_after_the_next_flush(
    kim: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It repaired the number, and was killed before it could say so."""
    make_wrong(kim.user)
    monkeypatch.setattr(watching, "changed", lambda: None)
    assert reconcile.run_pass()
    flushed()
    assert (kim.poll(), kim.unread) == (200, 4)


def test_a_doubt_is_seen_after_the_next_flush(kim: Tab, tmp_path: Path, costs: Costs) -> None:
    """A process that does not reach Redis cannot tell it of the doubt; the flusher does, within two seconds."""
    with redis_out_of_reach(tmp_path):
        inbox.notify(kim.user, "news", "Redis does not hear of it")
    assert Doubt.objects.count() == 1
    flushed()
    assert (kim.poll(), kim.unread) == (200, 4)
    with costs() as cost:
        kim.poll()
    assert cost.asked_postgresql  # the rows of a user with a doubt are counted each time
    assert reconcile.run_pass()
    for _ in range(2):
        flushed()
        kim.poll()
        assert kim.unread == 4


def test_a_doubt_that_is_noted_again_is_another(kim: Tab, tmp_path: Path) -> None:
    """Between two flushes it ended, and a number was remembered."""
    doubts.note([kim.user])
    flushed()
    assert reconcile.run_pass()
    assert kim.poll() in {200, 304}
    with redis_out_of_reach(tmp_path):
        inbox.notify(kim.user, "news", "Redis does not hear of it")
    flushed()
    assert (kim.poll(), kim.unread) == (200, 4)


def test_an_emptied_redis_is_no_change(kim: Tab, costs: Costs) -> None:
    """A Redis that lost its memory knows nothing, so PostgreSQL is asked."""
    inbox.notify(kim.user, "news", "One more")
    assert (kim.poll(), kim.unread) == (200, 4)
    redis.Redis.from_url(settings.REDIS_URL).flushdb()
    with costs() as cost:
        kim.poll()
    assert cost.asked_postgresql
    assert kim.unread == 4
    inbox.notify(kim.user, "news", "After it")
    for _ in range(3):
        kim.poll()
        assert kim.unread == 5
        flushed()
        reconcile.run_pass()
    flushed()
    with costs() as cost:
        assert [kim.poll(), kim.poll()] == [304, 304]
    assert kim.unread == 5


def test_a_redis_that_came_back_older_is_not_asked(tab: Tabs, tmp_path: Path, settings: Settings) -> None:
    """All keys are as they were before the change, even the open epoch; but no script is loaded."""
    with valkeys(tmp_path / "valkeys") as started:
        server = started.start("--save", "3600 1")
        settings.REDIS_URL = f"redis://{server.place}/0"
        calls.forget()
        reconcile.run_pass()
        opened = tab()
        inbox.notify(opened.user, "news", "One")
        for _ in range(3):
            flushed()
        assert (opened.poll(), opened.poll(), opened.unread) == (200, 304, 1)
        inbox.notify(opened.user + 1, "news", "So that an epoch is open")
        server.client.save()
        inbox.notify(opened.user, "news", "Forgotten by Redis")
        flushed()
        server.kill()
        server.start()
        calls.forget()
        assert server.client.get(keys().watch)  # it says what it said
        assert (opened.poll(), opened.unread) == (200, 2)
        calls.forget()


def test_without_a_flusher_postgresql_is_asked(kim: Tab, costs: Costs) -> None:
    """What Redis knows of PostgreSQL is good for ten seconds."""
    client: redis.Redis = redis.Redis.from_url(settings.REDIS_URL)
    left = client.pttl(keys().watch)
    assert 0 < left <= 10_000
    client.delete(keys().watch)  # as after that time
    with costs() as cost:
        assert [kim.poll(), kim.poll()] == [304, 304]
    assert cost.asked_postgresql


def test_redis_away(kim: Tab, tmp_path: Path) -> None:
    """Rows are counted."""
    with redis_out_of_reach(tmp_path):
        assert kim.poll() == 304
        inbox.notify(kim.user, "news", "One more")
        assert (kim.poll(), kim.unread) == (200, 4)
    flushed()
    kim.poll()
    assert kim.unread == 4


@pytest.mark.usefixtures("kim", "no_witness")  # the witness would remember the number after the test
def test_no_poll_is_answered_while_postgresql_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flusher sees that the timeline is another one, and takes back what Redis knows."""
    monkeypatch.setattr(gate._memory, "generation", 10**15)
    flushed()
    assert not watching.watched()


def test_after_a_recovery_the_rows_are_counted_at_once(kim: Tab) -> None:
    """PostgreSQL has forgotten two rows, and that their user's number was flushed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM weir_notifications_notification WHERE id <> "
            "(SELECT min(id) FROM weir_notifications_notification)"
        )
    reconcile.distrust()
    assert (kim.poll(), kim.unread) == (200, 1)


def test_a_session_is_looked_at_again_after_five_minutes(
    kim: Tab, costs: Costs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls in between do not extend that time."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + polls.TRUSTED_S - 1)
    with costs() as cost:
        assert kim.poll() == 304
    assert not cost.asked_postgresql
    get_user_model().objects.filter(pk=kim.user).update(is_active=False)
    monkeypatch.setattr(time, "time", lambda: now + polls.TRUSTED_S + 1)
    assert kim.client.get("/bell/", headers={"If-None-Match": kim.etag}).status_code == 401


def test_an_etag_is_of_its_session(kim: Tab, tab: Tabs) -> None:
    """For another user, one who has signed out, and one who has signed in again, the session is looked at."""
    other = tab()
    other.etag = kim.etag
    assert (other.poll(), other.unread) == (200, 0)
    kept = kim.etag
    kim.client.logout()
    assert kim.client.get("/bell/", headers={"If-None-Match": kept}).status_code == 401
    kim.client.force_login(get_user_model().objects.get(pk=kim.user))
    kim.etag = kept
    assert kim.poll() == 200


@pytest.mark.parametrize("etag", ['""', '"x"', "*", 'W/"x"', '"a:b"', "x" * 5_000, '"WyJhIl0:b"'])
def test_any_other_etag_is_none(kim: Tab, etag: str) -> None:
    """A browser may send anything."""
    kim.etag = etag
    assert (kim.poll(), kim.unread) == (200, 3)


def test_a_changed_etag_is_none(kim: Tab) -> None:
    """The number in it is signed."""
    kim.etag = kim.etag[:5] + ("A" if kim.etag[5] != "A" else "B") + kim.etag[6:]
    assert kim.poll() == 200


def test_a_full_redis_is_no_outage(kim: Tab, valkey: redis.Redis) -> None:
    """What Redis cannot store is not stored; polls ask PostgreSQL then, and changes are flushed."""
    inbox.notify(kim.user, "news", "One more")
    try:
        valkey.config_set("maxmemory", 1)
        flushed()
        scripts = valkey.info("memory")["number_of_cached_scripts"]
        flushed()
        assert valkey.info("memory")["number_of_cached_scripts"] == scripts
        assert (kim.poll(), kim.unread) == (200, 4)
        assert not calls._outage.over_at > time.monotonic()
    finally:
        valkey.config_set("maxmemory", 0)


def test_what_is_kept_is_bounded(kim: Tab, valkey: redis.Redis) -> None:
    """Eight epochs, and of a large one nothing."""
    for _ in range(3 * watching.PASTS):
        inbox.notify(kim.user, "news", "One more")
        flush.flush_sealed()
    names = valkey.keys(f"{keys().past}:*")
    assert len(names) == watching.PASTS
