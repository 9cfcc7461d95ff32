"""The project's function for addresses may be slow, and may raise: it holds no lock, and all others are told."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models.functions import Now
from structlog.testing import capture_logs

from tests.cases import for_each
from tests.integration.digests.digested import (
    ALARM,
    KIM,
    MARKS,
    NEWS,
    ROBIN,
    Relay,
    address,
    due,
    forget_the_case_before,
    kinds_of_test,
    lines,
    relay,
    send,
    tell,
    told,
    unread,
)
from tests.integration.digests.test_told_once import in_thread, read_all
from weir.digests import addresses, gathering
from weir.notifications import inbox
from weir.notifications.channels import kinds, preferences
from weir.notifications.models import Notification
from weir.notifications.user_keys import UserKey
from weir.workers.mail.models import Email
from weir.workers.mail.sending import runner

pytestmark = MARKS
__all__ = ["kinds_of_test", "relay"]
MANY = range(1, 61)
Ask = Callable[[Sequence[UserKey]], object]


def ask(monkeypatch: pytest.MonkeyPatch, before: Ask) -> list[list[UserKey]]:
    """Have users' addresses found by a function that calls `before` first; return with whom it was called."""
    calls: list[list[UserKey]] = []

    def find(users: Sequence[UserKey]) -> dict[UserKey, str]:
        calls.append(list(users))
        before(users)
        return {user: address(user) for user in users}

    monkeypatch.setattr(kinds, "_addresses", [find])
    return calls


def fails_for(*bad: UserKey) -> Ask:
    def fail(users: Sequence[UserKey]) -> None:
        if set(bad) & set(users):
            raise KeyError("no such account")

    return fail


def send_all() -> None:
    """Queue and send the digests that are due, however long it takes."""
    due()
    gathering.gather_due(20.0)
    runner.send_due()


def wait_within(most: timedelta) -> set[UserKey]:
    """Return who waits for this time at most, and for half of it at least."""
    waiting = Notification.objects.filter(read_at=None, digest_id=None)
    waiting = waiting.filter(digest_due_at__range=(Now() + most * 0.4, Now() + most))
    return set(waiting.values_list("user_id", flat=True))


def test_whoever_the_function_raises_for_waits_and_all_others_are_told(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says so once. When the function is mended, those are told, too."""
    calls = ask(monkeypatch, fails_for(KIM, 31))
    inbox.notify_many(MANY, NEWS, "news")
    with capture_logs() as logged:
        send_all()
    assert {int(email["To"].split("@")[0].split(".")[1]) for email in relay.came} == {*MANY} - {KIM, 31}
    assert (wait_within(gathering.FAILING_WAIT), unread()) == ({KIM, 31}, {"news"})
    [entry] = [entry for entry in logged if entry["event"] == "addresses_not_found"]
    assert (entry["log_level"], entry["users"], entry["left"], entry["user"]) == ("error", 2, 0, str(KIM))
    assert len(calls) <= 2 * 2 * 6
    ask(monkeypatch, fails_for())
    send()
    assert (len(relay.came), unread()) == (len(MANY), set())


def test_a_function_that_always_raises_is_not_called_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever it was not asked for alone waits for a minute, behind others; and so do all, if it takes too long."""
    calls = ask(monkeypatch, fails_for(*MANY))
    inbox.notify_many(MANY, NEWS, "news")
    due()
    assert gathering.gather_due(20.0) == len(MANY)
    alone, left = wait_within(gathering.FAILING_WAIT), wait_within(gathering.LEFT_WAIT)
    assert alone
    assert alone | left == {*MANY}
    assert (len(calls), Email.objects.exists()) == (addresses.MOST_CALLS, False)
    calls.clear()
    due()
    assert gathering.gather_due(0.0) == len(MANY)
    assert (len(calls), wait_within(gathering.LEFT_WAIT)) == (1, {*MANY})


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_while_a_database_is_away_nobody_waits_for_long(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """It says nothing of the users for whom the function was called then."""

    def is_away(_users: Sequence[UserKey]) -> None:
        raise error("the server closed the connection")

    ask(monkeypatch, is_away)
    inbox.notify_many(MANY, NEWS, "news")
    due()
    assert gathering.gather_due(20.0) == len(MANY)
    assert wait_within(gathering.LEFT_WAIT) == {*MANY}


def test_the_function_runs_in_no_transaction_and_holds_no_lock(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    def lock(_users: Sequence[UserKey]) -> None:
        assert not connection.in_atomic_block
        assert in_thread(locks_all).result(20)

    def locks_all() -> bool:
        with transaction.atomic():
            return bool(Notification.objects.select_for_update(nowait=True).order_by("pk"))

    ask(monkeypatch, lock)
    tell("a")
    send()
    assert told(relay) == {"a": 1}


def by_other_gatherer(_row: Notification) -> int:
    return gathering.gather_due(20.0)


def to_page(_row: Notification) -> int:
    preferences.set_preference(KIM, NEWS, "page")
    return 1


def deleted(row: Notification) -> int:
    return row.delete()[0]


@for_each("way", [read_all, by_other_gatherer, to_page, deleted])
def test_what_happens_while_the_function_runs_makes_no_second_digest_and_no_empty_one(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, way: Callable[[Notification], int]
) -> None:
    forget_the_case_before(relay)
    preferences.set_preference(KIM, NEWS, "digest")
    row = tell("a")
    happens: Iterator[int] = iter([1])
    ask(monkeypatch, lambda _users: [way(row) for _ in happens])
    send()
    assert told(relay) == ({"a": 1} if way is by_other_gatherer else {})
    assert Email.objects.count() == (way is by_other_gatherer)


def fails_in_postgresql(_users: Sequence[UserKey]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@for_each("fails", [fails_for(KIM), fails_in_postgresql])
def test_who_notifies_gets_the_notification_written_whatever_the_function_raises(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, fails: Ask
) -> None:
    """In the caller's transaction, which goes on. Whoever it raises for is told by a digest, when it is mended."""
    forget_the_case_before(relay)
    ask(monkeypatch, fails)
    with transaction.atomic(), capture_logs() as logged:
        assert inbox.notify_many([KIM, ROBIN], ALARM, "fire") == 2
        tell("on the page", ROBIN, "chat")
    assert [entry["event"] for entry in logged] == ["addresses_not_found"]
    runner.send_due()
    by_itself = [] if fails is fails_in_postgresql else ["fire"]
    assert [email["Subject"] for email in relay.came] == by_itself
    ask(monkeypatch, fails_for())
    send()
    assert [lines(email) for email in relay.came[len(by_itself) :]] == [["fire"]] * (2 - len(by_itself))
    assert (unread(), unread(ROBIN)) == (set(), {"on the page"})


def test_a_task_whose_soft_time_limit_comes_while_the_function_runs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the function that raises it."""

    def is_late(_users: Sequence[UserKey]) -> None:
        raise SoftTimeLimitExceeded

    calls = ask(monkeypatch, is_late)
    with pytest.raises(SoftTimeLimitExceeded):
        inbox.notify_many([KIM, ROBIN], ALARM, "fire")
    assert (len(calls), Notification.objects.exists()) == (1, False)
    inbox.notify_many([KIM, ROBIN], NEWS, "news")
    due()
    with pytest.raises(SoftTimeLimitExceeded):
        gathering.gather_due(20.0)
    assert len(calls) == 2


@for_each("bad", ["kim\n@customers.example", "k" * 100_000 + "@customers.example", "\ud800@x.example", 7, ["kim"]])
def test_an_address_that_is_none_keeps_no_other_from_being_told(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, bad: object
) -> None:
    """The e-mail to it fails, and says why; if it is not even text, no e-mail is queued, and the log says so."""
    forget_the_case_before(relay)
    monkeypatch.setattr(
        kinds, "_addresses", [lambda users: {user: bad if user == KIM else address(user) for user in users}]
    )
    assert inbox.notify_many([KIM, ROBIN], NEWS, "news") == 2
    assert inbox.notify_many([KIM, ROBIN], ALARM, "fire") == 2
    send_all()
    assert [email["To"] for email in relay.came] == [address(ROBIN)] * 2
    assert (unread(), unread(ROBIN)) == ({"news", "fire"}, set())
    failed = Email.objects.filter(state="failed", last_reply__contains="no recipient").count()
    assert failed == (2 if isinstance(bad, str) else 0)
