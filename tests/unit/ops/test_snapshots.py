"""Snapshots: one looks, all get it, and it lives at least twenty times as long as it took."""

import threading
from contextlib import nullcontext

import psycopg
import pytest
from django.db import OperationalError

from tests.waiting import wait_for
from weir.ops import snapshots
from weir.ops.snapshots import OverviewSnapshot, Snapshots
from weir.postgres import bounded


@pytest.fixture(autouse=True)
def _without_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "reading", lambda _seconds: nullcontext())


def test_one_thread_looks_and_the_others_get_what_it_saw() -> None:
    """However many ask at once."""
    looks: list[int] = []
    may_end = threading.Event()

    def look() -> int:
        looks.append(1)
        may_end.wait(10)
        return len(looks)

    snapshot: OverviewSnapshot[int] = OverviewSnapshot()
    got: list[int | None] = []
    threads = [threading.Thread(target=lambda: got.append(snapshot.get(look).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert (len(looks), got) == (1, [1] * 8)


def test_while_one_looks_again_the_others_get_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a look that somebody else makes, but for the first one."""
    monkeypatch.setattr(snapshots, "FIRST_WITHIN_S", 60.0)
    is_looking, may_end = threading.Event(), threading.Event()
    answers = iter([1, 2])

    def look() -> int:
        answer = next(answers)
        if answer == 2:
            is_looking.set()
            may_end.wait(10)
        return answer

    snapshot: OverviewSnapshot[int] = OverviewSnapshot(least_life_s=0)
    first = snapshot.get(look)
    assert first.value == 1
    wait_for(lambda: not first.is_fresh, 10, "the end of the first look's life")
    other = threading.Thread(target=snapshot.get, args=(look,))
    other.start()
    assert is_looking.wait(10)
    assert snapshot.get(look).value == 1
    may_end.set()
    other.join(10)


def test_a_look_that_took_long_lives_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process spends a twentieth of its time on it, at most."""
    clock = iter([0.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    monkeypatch.setattr("weir.ops.snapshots.time.monotonic", lambda: next(clock))
    assert OverviewSnapshot[int]().get(lambda: 1).life_s == 10.0


def test_no_look_lives_for_longer_than_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stood still for half a minute is looked at again soon after it goes on."""
    clock = iter([0.0, 30.0, 30.0, 30.0, 30.0, 30.0])
    monkeypatch.setattr("weir.ops.snapshots.time.monotonic", lambda: next(clock))
    assert OverviewSnapshot[int]().get(lambda: 1).life_s == 60.0


def test_a_quick_look_lives_for_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no statement of it may take more than one."""
    limits: list[float] = []

    def reading(seconds: float) -> nullcontext[None]:
        limits.append(seconds)
        return nullcontext()

    monkeypatch.setattr(bounded, "reading", reading)
    snapshot: OverviewSnapshot[int] = OverviewSnapshot()
    assert 2 <= snapshot.get(lambda: 1).life_s < 5
    assert snapshot.get(lambda: 2) is snapshot.get(lambda: 3)
    assert limits == [1.0]


def test_a_failure_is_said_and_never_raised() -> None:
    """Not in the driver's words, which may name hosts and users, and are in the server's language."""

    def look() -> int:
        words = "storniere Anfrage wegen Zeitüberschreitung der Anfrage"  # as `lc_messages` says
        raise OperationalError(words) from psycopg.errors.QueryCanceled(words)

    seen = OverviewSnapshot[int]().get(look)
    assert seen.value is None
    assert "longer than 1 s" in seen.failure

    def fail() -> int:
        raise OperationalError('connection to "db.example.com" as user "weir" failed')

    assert OverviewSnapshot[int]().get(fail).failure == "PostgreSQL does not answer."


def test_each_key_has_its_snapshot_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors cannot fill the memory with keys."""
    monkeypatch.setattr(snapshots, "MOST_KEPT", 2)
    looks: list[str] = []

    def look(key: str) -> int:
        looks.append(key)
        return len(looks)

    kept: Snapshots[int] = Snapshots()

    def get(key: str) -> int | None:
        return kept.get(key, lambda: look(key)).value

    assert [get(key) for key in "aba"] == [1, 2, 1]
    assert [get(key) for key in "cacb"] == [3, 1, 3, 4]
    assert looks == ["a", "b", "c", "b"]
