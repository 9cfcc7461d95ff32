"""What a transaction changes of unread numbers reaches Redis in one call after its commit, or is noted as missed."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.db import OperationalError, connection, connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, TestCase
from django.urls import path
from structlog.testing import capture_logs

from tests.integration.conftest import InThreads
from tests.integration.notifications.unread import MARKS, assert_exact, assert_kept, redis_at, redis_out_of_reach
from weir.notifications import changes, counters, flush, inbox, models, reconcile
from weir.notifications.models import Doubt, Notification
from weir.notifications.reconciliation import drift
from weir.postgres import statements
from weir.redis_link import calls, outages, places

pytestmark = MARKS
in_requests = pytest.mark.django_db(**MARKS[0].kwargs, databases="__all__")  # one may have transactions in each

Sent = list[dict[int, int]]


class Undone(Exception):
    pass


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Return the changes that are sent, one for each call of Redis."""
    calls: Sent = []
    add = counters.add

    def counted(deltas: Mapping[int, int]) -> None:
        calls.append(dict(deltas))
        add(deltas)

    monkeypatch.setattr(counters, "add", counted)
    return calls


def tell(*users: int) -> None:
    for user_id in users:
        inbox.notify(user_id, "news", "Hello")


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def tell_in_vain(*users: int) -> None:
    with rolled_back():
        tell(*users)


# --- one call -------------------------------------------------------------------------------------


def test_a_transaction_is_one_call_with_one_net_delta_a_user(sent: Sent) -> None:
    """However many changes, savepoints and users there are, Redis is called once, after the commit."""
    with transaction.atomic():
        tell(1, 2, 2)
        with transaction.atomic():
            tell(2, 3)
            with transaction.atomic():
                inbox.mark_all_read(1)
        inbox.notify_many([3, 4], "news", "Hello")
        assert sent == []
    assert sent == [{2: 3, 3: 2, 4: 1}]
    assert_exact()


def test_changes_outside_a_transaction_are_a_call_each(sent: Sent) -> None:
    """If each statement commits by itself, each change is sent immediately."""
    tell(1, 2)
    assert sent == [{1: 1}, {2: 1}]


def test_what_comes_to_nothing_is_not_sent(sent: Sent) -> None:
    """Notified and read in one transaction, or read twice: Redis is not called."""
    with transaction.atomic():
        tell(1)
        inbox.mark_all_read(1)
    inbox.mark_all_read(1)
    inbox.notify_many([], "news", "Hello")
    Notification.objects.update(read_at=None, user_id=1)
    Notification.objects.all().delete()
    assert sent == [{1: 1}, {1: -1}]
    assert_exact()


def test_rolled_back_savepoints_take_their_changes_along(sent: Sent) -> None:
    """Wherever the savepoints are, first, last, nested or around, the surviving changes are sent in one call."""
    with transaction.atomic():
        tell_in_vain(1)
        with transaction.atomic():
            tell(2)
            tell_in_vain(1, 2)
            tell(3)
            with rolled_back():
                tell(3)
                with transaction.atomic():
                    tell(4)
                tell_in_vain(5)
        tell_in_vain(6)
    assert sent == [{2: 1, 3: 1}]
    assert_exact()


def test_nothing_is_sent_where_the_outermost_block_rolls_back(sent: Sent) -> None:
    """This holds whatever was released inside it, and nothing is left over for the next transaction."""
    with rolled_back():
        with transaction.atomic():
            tell(1)
        tell_in_vain(2)
    assert sent == []
    with transaction.atomic():
        tell(3)
    assert sent == [{3: 1}]
    assert_exact()


def test_a_block_without_a_savepoint_rolls_all_back(sent: Sent) -> None:
    """If `atomic(savepoint=False)` fails, the whole transaction is rolled back."""
    with transaction.atomic():
        tell(1)
        with transaction.atomic(savepoint=False):
            tell(2)
            transaction.set_rollback(True)
    assert sent == []
    assert_exact()


def test_other_hooks_run_in_their_order_and_may_change_numbers_themselves(sent: Sent) -> None:
    """The application's own hooks run before and after, robust or not; changes that they make are sent, too."""
    order: list[str] = []

    def fail() -> None:
        order.append("robust")
        raise Undone

    with transaction.atomic():
        transaction.on_commit(lambda: order.append("first"))
        tell(1)
        transaction.on_commit(fail, robust=True)
        transaction.on_commit(lambda: tell(2))
        tell(1)
        transaction.on_commit(lambda: order.append(f"last, after {sent}"))
    assert order == ["first", "robust", "last, after [{2: 1}, {1: 2}]"]
    assert_exact()


@in_requests
def test_a_request_in_a_transaction_is_one_call(
    sent: Sent, client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ATOMIC_REQUESTS the view's changes are sent when its transaction commits, and not if it fails."""
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    client.raise_request_exception = False
    assert client.get("/tell").content == b"1 unread so far"
    assert client.get("/fail").status_code == 500
    assert sent == [{1: 1, 2: 1}]
    assert_exact()


def test_a_transaction_sees_the_number_with_its_own_changes(sent: Sent, in_threads: InThreads) -> None:
    """Those of kept savepoints, not of rolled-back ones, whatever is flushed; other transactions see none of it."""
    tell(1)
    with transaction.atomic():
        tell(1, 2)
        with transaction.atomic():
            tell(1)
            with rolled_back():
                tell(1)
                with transaction.atomic():
                    inbox.mark_all_read(1)
                assert inbox.unread_counts([1, 2, 3]) == {1: 0, 2: 1, 3: 0}
            assert inbox.unread_counts([1, 2, 3]) == {1: 3, 2: 1, 3: 0}
        in_threads(1, lambda _: flush.flush_sealed())
        tell_in_vain(1, 2)
        assert inbox.unread_counts([1, 2, 3]) == {1: 3, 2: 1, 3: 0}
        assert sent == [{1: 1}]
    assert inbox.unread_counts([1, 2, 3]) == {1: 3, 2: 1, 3: 0}
    assert_exact(1, 2, 3)


def test_a_transaction_whose_rows_are_counted_sees_its_own_changes_once(tmp_path: Path) -> None:
    """They are among the rows, so nothing is added."""
    tell(1)
    with redis_out_of_reach(tmp_path), transaction.atomic():
        tell(1)
        assert inbox.unread_count(1) == 2
        inbox.mark_all_read(1)
        assert inbox.unread_count(1) == 0


@in_requests
def test_the_documented_view_shows_the_new_number_in_a_transaction(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ATOMIC_REQUESTS, a view that marks rows as read, and then asks how many are left, gets the new number."""
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    tell(1, 1, 1)
    rows = [row.pk for row in inbox.page(1)]
    assert client.post("/seen", {"id": rows[:2]}).content == b"1"
    assert client.post("/seen", {"id": rows[2:]}).content == b"0"
    assert_exact(1)


def seen(request: HttpRequest) -> HttpResponse:
    inbox.mark_read(1, map(int, request.POST.getlist("id")))
    return HttpResponse(inbox.unread_count(1))


def view(request: HttpRequest) -> HttpResponse:
    tell(1, 2)
    if "fail" in request.path:
        raise Undone
    return HttpResponse(f"{inbox.unread_count(1)} unread so far")


urlpatterns = [path("tell", view), path("fail", view), path("seen", seen)]


def test_hooks_that_a_test_case_captures_change_the_number(sent: Sent) -> None:
    """Each `captureOnCommitCallbacks` has what was recorded in its block, whatever was recorded before."""
    with rolled_back(), rolled_back():  # as a TestCase is
        tell(1)
        for _ in range(2):
            with TestCase.captureOnCommitCallbacks(execute=True):
                tell(2)
                tell_in_vain(2)
        assert sent == [{2: 1}, {2: 1}]
        assert inbox.unread_counts([1, 2]) == {1: 1, 2: 2}
        tell(1)
        with TestCase.captureOnCommitCallbacks() as callbacks:
            tell(2, 3)
            tell(3)
        assert len(sent) == 2
        for callback in callbacks:
            callback()
        assert sent[2:] == [{2: 1, 3: 2}]


# --- missed and late ------------------------------------------------------------------------------


def doubted() -> set[int]:
    return set(Doubt.objects.values_list("pk", flat=True))


def run_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a pass that sees Redis again, and one that looks into the doubts."""
    monkeypatch.setattr(drift, "APART_S", 0.0)
    for _ in range(2):
        assert reconcile.run_pass()
    assert_exact()


def test_a_missed_delta_raises_nothing_and_its_users_are_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Redis does not answer, rows are written, numbers are right immediately, and the users become doubts."""
    some: Any = (3, "3", "4")
    with redis_out_of_reach(tmp_path):
        tell(1)
        with transaction.atomic():
            inbox.notify_many([1, 2], "news", "Hello")
        Notification.objects.bulk_create(Notification(user_id=user_id, kind="news") for user_id in some)
        assert inbox.unread_counts([1, 2, 3, 4, 5]) == {1: 2, 2: 1, 3: 2, 4: 1, 5: 0}
    assert doubted() == {1, 2, 3, 4}
    assert inbox.unread_counts([1, 2, 3, 4, 5]) == {1: 2, 2: 1, 3: 2, 4: 1, 5: 0}
    run_two_passes(monkeypatch)


def test_a_delta_that_was_added_without_an_answer_is_in_doubt_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis may or may not have added it; the number is right immediately, and a pass finds nothing to repair."""
    add = counters.add

    def added_without_an_answer(deltas: Mapping[int, int]) -> None:
        add(deltas)
        raise counters.RedisUnreachable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(counters, "add", added_without_an_answer)
        tell(1)
    assert doubted() == {1}
    assert inbox.unread_count(1) == 1
    report = reconcile.run_pass()
    assert report
    assert report.repaired.first == {}
    assert_exact()


@pytest.mark.parametrize(("seconds", "doubts"), [(0.0, set()), (1.4, set()), (1.6, {1, 2})])
def test_a_delta_that_comes_late_is_in_doubt(seconds: float, doubts: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass may have considered it lost and repaired the number, so another pass must look.

    The time counts from the COMMIT, even if another hook commits a transaction of its own meanwhile.
    """
    now = 100.0

    def stop() -> None:
        nonlocal now
        now += seconds
        with transaction.atomic():
            connection.cursor().execute("SELECT 1")

    monkeypatch.setattr(changes, "time", SimpleNamespace(monotonic=lambda: now))
    with transaction.atomic():
        tell(1)
        transaction.on_commit(stop)
        tell(2)
    assert doubted() == doubts
    assert_kept()


def test_a_transaction_that_takes_long_after_a_change_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other transaction sees the row before the COMMIT, as in a request that goes on; the COMMIT itself counts."""
    now, committing_takes = 100.0, 0.0
    monkeypatch.setattr(changes, "time", SimpleNamespace(monotonic=lambda: now))
    commit = connection.connection.commit

    def slowly() -> None:
        nonlocal now
        now += committing_takes
        commit()

    monkeypatch.setattr(connection.connection, "commit", slowly, raising=False)
    with transaction.atomic():
        tell(1)
        now += 60.0
    assert doubted() == set()
    committing_takes = 1.6
    with transaction.atomic():
        tell(2)
    assert doubted() == {2}
    assert_kept()


@pytest.mark.parametrize("way", ["save", "mark_read"])
def test_a_delta_that_comes_late_without_a_transaction_is_in_doubt(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement commits by itself, so time counts from its sending: the process may stop right after it."""
    row = inbox.notify(1, "news", "Hello")
    clock: Any = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    for module in (changes, inbox.writing, models.notifications):
        monkeypatch.setattr(module, "time", clock)
    execute = statements.execute

    def stop_after(do: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        result = do(*arguments, **options)
        clock.now += 10.0
        return result

    if way == "save":
        with connection.execute_wrapper(stop_after):
            inbox.notify(1, "news", "Hello")
    else:
        with monkeypatch.context() as patched:
            patched.setattr(statements, "execute", partial(stop_after, execute))
            inbox.mark_read(1, [row.pk])
    assert doubted() == {1}
    assert_kept()


def test_what_was_undone_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """No user becomes a doubt if nothing was sent."""
    monkeypatch.setattr(changes, "LATE_S", -1.0)
    with transaction.atomic():
        tell_in_vain(1)
    assert doubted() == set()
    tell(1)
    assert doubted() == {1}


def test_a_doubt_that_cannot_be_noted_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed stays, and the caller goes on; reconciliation finds the user by the row."""

    def away(*_arguments: object) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(outages, "_quiet_until", {})
    with redis_out_of_reach(tmp_path), monkeypatch.context() as patched, capture_logs() as entries:
        patched.setattr(statements, "execute", away)
        tell(1)
    assert [entry["event"] for entry in entries] == ["unread_delta_missed", "unread_doubt_not_noted"]
    assert Notification.objects.count() == 1


def test_an_outage_is_logged_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missed deltas and counted numbers are each logged once a minute, not once a call."""
    now = 1_000.0
    monkeypatch.setattr(outages, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(outages, "_quiet_until", {})
    minutes = []
    with redis_out_of_reach(tmp_path):
        for _ in range(3):
            with capture_logs() as entries:
                for _ in range(5):
                    tell(1)
                    inbox.unread_count(1)
                    now += 14.9
            minutes.append(sorted((entry["event"], entry["log_level"]) for entry in entries))
    assert minutes == [[("unread_counted_without_redis", "warning"), ("unread_delta_missed", "warning")]] * 3


def test_a_redis_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that gets no answer does not ask for a second: no call waits for one time-out after the other."""
    now = 1_000.0
    monkeypatch.setattr(places, "ANSWER_TIMEOUT_S", 0.05)
    monkeypatch.setattr(calls, "time", SimpleNamespace(monotonic=lambda: now))
    with socket.create_server(("127.0.0.1", 0)) as silent, redis_at(f"redis://127.0.0.1:{silent.getsockname()[1]}"):
        silent.settimeout(0.5)
        for _ in range(2):
            for _ in range(5):
                tell(1)
                inbox.unread_count(1)
            silent.accept()[0].close()
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):
                silent.accept()
            now += calls.LEFT_ALONE_S


def test_redis_may_forget_its_scripts(valkey: redis.Redis) -> None:
    """They are sent again, and nothing is missed."""
    tell(1)
    valkey.script_flush()
    tell(1)
    assert doubted() == set()
    assert_exact()
