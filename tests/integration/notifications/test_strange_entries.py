"""Another program has written into Weir's keys in Redis: flushes, reads and passes go on, and report it."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from tests.cases import case
from tests.integration.conftest import Eventually, InThreads
from tests.integration.notifications.unread import MARKS, assert_exact, reconciled, unread_rows, with_deltas
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.models import Doubt, UnreadCount
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.redis_link import calls
from weir.redis_link.keys import keys

pytestmark = [*MARKS, pytest.mark.usefixtures("looks_at_once")]

MEMBERS: list[str | bytes] = [
    "hello",
    "",
    "1.5",
    "007",
    "9223372036854775808",
    b"\xff\xfe",
    "\0",
    "long" * 5_000,
]
SCORES = ["1.5", "inf", "-inf", "2147483648", "-2147483649", "1e17", "1e300"]


def said(entries: list[Any]) -> dict[str, Any]:
    """Return the one line that was logged."""
    [entry] = entries
    assert entry["log_level"] == "warning"
    return dict(entry)


def doubted() -> set[int]:
    return set(Doubt.objects.values_list("pk", flat=True))


# --- entries of an epoch --------------------------------------------------------------------------


@pytest.mark.parametrize("member", MEMBERS, ids=ascii)
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_a_member_that_is_no_users_key_is_left_out(sealed: bool, member: str | bytes, valkey: redis.Redis) -> None:
    """The deltas of all users are flushed, and the strange entry is dropped with the epoch."""
    inbox.notify_many([1, 2, 7], "news", "Hello")
    valkey.zincrby(keys().open, 1, member)
    if sealed:
        counters.seal()
    assert inbox.unread_counts([1, 2, 7]) == unread_rows()
    with capture_logs() as entries:
        assert flush.flush_sealed().users == 3
    line = said(entries)
    assert (line["event"], line["entries"], len(line["first"])) == ("unread_strange_entries", 1, 1)
    assert all(len(text) < 100 and text.isascii() for text in line["first"])
    assert not valkey.exists(keys().open, keys().sealed, keys().deltas)
    assert doubted() == set()
    with capture_logs() as entries:
        assert_exact(1, 2, 7)
    assert entries == []
    assert UnreadCount.objects.count() == 3


@pytest.mark.parametrize("score", SCORES)
def test_a_user_whose_delta_was_spoilt_becomes_a_doubt(score: str, valkey: redis.Redis) -> None:
    """What was added is not known, so the user's rows are counted until a pass has looked at them."""
    inbox.notify_many([1, 2], "news", "Hello")
    valkey.zadd(keys().open, {"1": score})
    inbox.notify(1, "news", "Hello")
    for _ in range(2):
        assert inbox.unread_counts([1, 2])[2] == 1
        reconcile.reconcile_users([2])
        counters.seal()
    with capture_logs() as entries:
        assert flush.flush_sealed().users == 1
    assert said(entries)["event"] == "unread_strange_entries"
    assert doubted() == {1}
    assert inbox.unread_counts([1, 2]) == {1: 2, 2: 1}
    assert reconciled().repaired.first == {1: 2}
    assert_exact()


@pytest.mark.parametrize("score", SCORES)
def test_a_pass_looks_at_a_user_whose_delta_was_spoilt(score: str, valkey: redis.Redis) -> None:
    """Before a flush has met it; that flush then adds nothing."""
    inbox.notify_many([1, 2], "news", "Hello")
    valkey.zadd(keys().open, {"1": score})
    assert reconciled().repaired.first == {1: 1}
    assert inbox.unread_counts([1, 2]) == {1: 1, 2: 1}
    flush.flush_sealed()
    reconciled()
    assert_exact()


def test_of_many_strange_entries_the_first_few_are_said(valkey: redis.Redis) -> None:
    """However many there are, one line is logged for an epoch."""
    inbox.notify_many(range(1, 11), "news", "Hello")
    valkey.zadd(keys().open, {f"strange {number}": 1 for number in range(12_000)})
    with capture_logs() as entries:
        assert flush.flush_sealed().users == 10
    line = said(entries)
    assert (line["entries"], len(line["first"])) == (12_000, 5)
    assert_exact()


def test_a_doubt_is_noted_in_the_transaction_that_flushes(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is killed before its commit, neither is there; otherwise a number that is too low would stay unnoticed."""
    execute, written = statements.execute, set[str]()

    def killed(statement: Statement[Any], *how: Any) -> Any:
        rows = execute(statement, *how)
        written.add(statement.name)
        if written >= {"note_doubts", "apply_epoch"}:
            raise KeyboardInterrupt
        return rows

    inbox.notify_many([1, 2], "news", "Hello")
    valkey.zadd(keys().open, {"1": 1.5})
    with monkeypatch.context() as patched:
        patched.setattr(statements, "execute", killed)
        with pytest.raises(KeyboardInterrupt):
            flush.flush_sealed()
    assert (doubted(), UnreadCount.objects.count()) == (set(), 0)
    assert flush.flush_sealed().users == 1
    assert doubted() == {1}


def test_two_that_apply_a_spoilt_epoch_at_once_do_not_wait_for_each_other(
    valkey: redis.Redis, in_threads: InThreads, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second leaves the epoch, and the doubts, to the first."""
    inbox.notify_many([1, 2], "news", "Hello")
    valkey.zadd(keys().open, {"1": 1.5})
    applied, met = Event(), Event()
    execute = statements.execute

    def linger(statement: Statement[Any], *how: Any) -> Any:
        rows = execute(statement, *how)
        if statement.name == "apply_epoch" and rows[0].epochs:
            applied.set()
            eventually(met.is_set, "the second to meet the first", seconds=5)
        return rows

    def one(number: int) -> int:
        if number:
            eventually(applied.is_set, "the first to apply")
            users = flush.flush_sealed().users
            met.set()
            return users
        return flush.flush_sealed().users

    monkeypatch.setattr(statements, "execute", linger)
    assert in_threads(2, one) == [1, 0]
    assert doubted() == {1}


# --- keys -----------------------------------------------------------------------------------------


def overwrite(valkey: redis.Redis, key: str, value: str | bytes | None) -> None:
    """Write a text to the key, or a list if `value` is None."""
    if value is None:
        valkey.delete(key)
        valkey.rpush(key, "1")
    else:
        valkey.set(key, value)


OVERWRITTEN: list[tuple[str, str | bytes | None]] = [
    *((name, value) for name in ("open", "deltas", "calls") for value in ("1", None)),
    *(("epoch", value) for value in ("", "x", "-1", "007", "7", "1e3", b"\xff", "9" * 16, "9" * 18, "9" * 400, None)),
    *(("sealed", value) for value in ("", "x", "-1", "007", "7", b"\xff", "9" * 16, "9" * 18, "9" * 400, None)),
    *(("incarnation", value) for value in ("", "x", b"\xff", "\0", "9" * 18 + "-a", "1-x", "-a", "9" * 400, None)),
    *(("incarnation", f"1-{name}") for name in ("a", "A" * 32, "a" * 33)),
]
OF_OTHER_TYPES = [(name, value) for name, value in OVERWRITTEN if value is None]


@pytest.mark.parametrize(
    ("mend", "overwritten"),
    [(flush.flush_sealed, OVERWRITTEN), (reconcile.run_pass, OF_OTHER_TYPES)],
    ids=["flush", "pass"],
)
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_a_key_that_was_overwritten_is_as_lost(
    sealed: bool, mend: Callable[[], Any], overwritten: list[tuple[str, str | bytes | None]], valkey: redis.Redis
) -> None:
    """Rows are counted until a full scan has compared all users, and the log names the key.

    Or it names the keys that contradict it, if its value could be that of another time. A flush and a pass repair all
    of them by the same call.
    """
    for number, (name, value) in enumerate(overwritten):
        with case(f"{name} {value!r:.30}"):
            users = [2 * number + 1, 2 * number + 2]
            overwrite_and_mend(valkey, name, value, users, sealed=sealed, mend=mend)
    calls.forget()


def overwrite_and_mend(
    valkey: redis.Redis,
    name: str,
    value: str | bytes | None,
    users: list[int],
    *,
    sealed: bool,
    mend: Callable[[], Any],
) -> None:
    inbox.notify_many(users, "news", "Hello")
    flush.flush_sealed()
    inbox.notify_many(users, "news", "Hello")
    if sealed:
        counters.seal()
    key = getattr(keys(), name)
    overwrite(valkey, key, value)
    inbox.notify(users[1], "news", "Hello")
    calls.forget()  # the outage: Redis refuses to add to a key that is not a sorted set
    rows = dict(zip(users, [2, 3], strict=True))
    shown = inbox.unread_counts(users)
    assert shown == rows or (name, value) == ("sealed", None)  # no reader sees that before it is repaired
    calls.forget()
    with capture_logs() as entries:
        mend()
    [line] = [entry for entry in entries if entry["event"] == "unread_strange_keys"]
    named, contradicting = {*line["keys"]}, {keys().epoch, keys().sealed, keys().incarnation}
    assert named == {key} or (value == "7" and named and named <= contradicting)
    assert line["log_level"] == "warning"
    assert inbox.unread_counts(users) == rows
    with capture_logs() as entries:
        for _ in range(2):
            reconciled()
            flush.flush_sealed()
    assert "unread_strange_keys" not in [entry["event"] for entry in entries]
    inbox.notify(users[0], "news", "Hello")
    assert with_deltas(users) == {users[0]}
    assert_exact()


@pytest.mark.parametrize("value", ["007", "+7", "7_0"])
def test_a_flush_ends_where_the_number_of_its_epoch_is_overwritten(
    value: str, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is written in another way than Redis writes it cannot be dropped: the next flush repairs it."""
    apply = flush._apply
    applied: list[int] = []

    def overwritten(epoch: int) -> flush.AppliedEpoch:
        applied.append(epoch)
        assert len(applied) < 5
        done = apply(epoch)
        if len(applied) == 1:
            valkey.set(keys().sealed, value)
        return done

    monkeypatch.setattr(flush, "_apply", overwritten)
    inbox.notify_many([1, 2], "news", "Hello")
    counters.seal()
    flush.flush_sealed()
    for _ in range(2):
        flush.flush_sealed()
        reconciled()
    assert_exact()
