"""The threads of a process: a call that hangs stops no other kind, and its lease is renewed."""

import threading
from collections.abc import Collection, Iterator
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import Max
from pytest_django import Settings

from tests.cases import for_each
from tests.waiting import wait_for
from weir.workers.effects import kinds, queueing
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.attempts import EffectAttempt
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.effects.performing.threads import EffectThreads

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["weir.workers.effects"])
GO_ON = threading.Event()
AT_ONCE = 2


@kinds.register("test.hangs", at_once=AT_ONCE)
def hang(attempt: EffectAttempt) -> None:
    """Begin, and return when the test says so."""
    attempt.begin()
    GO_ON.wait()


@kinds.register("test.quick")
def quick(attempt: EffectAttempt) -> None:
    """Begin, and return."""
    attempt.begin()


@pytest.fixture
def threads() -> Iterator[EffectThreads]:
    GO_ON.clear()
    made = EffectThreads()
    yield made
    GO_ON.set()
    made.close()
    assert made.wait(10)


def states(kind: str) -> list[str]:
    return list(Effect.objects.filter(kind=kind).order_by("pk").values_list("state", flat=True))


def test_a_kind_that_hangs_stops_no_other_and_no_more_of_it_is_begun_than_it_says(threads: EffectThreads) -> None:
    for number in range(AT_ONCE + 1):
        queueing.once("test.hangs", str(number))
    threads.take_up()
    wait_for(lambda: states("test.hangs").count("begun") == AT_ONCE, 10, "the hanging ones to begin")
    for number in range(10):
        queueing.once("test.quick", str(number))
    threads.take_up()
    wait_for(lambda: set(states("test.quick")) == {"done"}, 10, "the quick ones")
    assert states("test.hangs") == ["begun"] * AT_ONCE + ["pending"]
    GO_ON.set()
    wait_for(lambda: set(states("test.hangs")) == {"done"}, 10, "the rest, by the threads that are free again")


def test_the_lease_of_a_call_that_takes_long_is_renewed(threads: EffectThreads, settings: Settings) -> None:
    settings.WEIR_EFFECT_UNKNOWN_AFTER = settings.WEIR_EFFECT_LEASE = 2.0
    queueing.once("test.hangs", "1")
    threads.take_up()
    wait_for(lambda: states("test.hangs") == ["begun"], 10, "it to begin")
    later = Effect.objects.filter(claimed_until__gt=Effect.objects.get().claimed_until)
    wait_for(later.exists, 10, "its lease to be renewed")


@for_each("name", ["weir: test.quick", "weir: leases of effects"])
def test_a_host_without_threads_delays_effects_and_holds_none(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What was claimed is given back, and the kind has all its threads afterwards."""
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def started(thread: threading.Thread) -> None:
        if thread.name == name and failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    waiting = [queueing.once("test.quick", f"{name}, {number}").pk for number in range(3)]
    threads = EffectThreads()  # without threads that renew
    with pytest.raises(RuntimeError):
        threads.take_up()
    assert set(Effect.objects.filter(pk__in=waiting).values_list("state", flat=True)) == {"pending"}
    assert threads.wait(10)
    threads.take_up()
    wait_for(lambda: Effect.objects.filter(pk__in=waiting, state="done").count() == len(waiting), 10, "all of them")
    threads.close()


def test_leases_are_renewed_while_calls_hold_all_connections_of_a_pool(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call keeps its thread's connection, however long it takes."""
    settings.WEIR_EFFECT_UNKNOWN_AFTER = settings.WEIR_EFFECT_LEASE = 2.0
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    pool = {"min_size": AT_ONCE + 1, "max_size": AT_ONCE + 1, "timeout": 1}  # one is of this thread
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", pool)
    GO_ON.clear()
    threads = EffectThreads()
    try:
        for number in range(AT_ONCE):
            queueing.once("test.hangs", str(number))
        threads.take_up()
        wait_for(lambda: set(states("test.hangs")) == {"begun"}, 10, "them to begin")
        last = Effect.objects.aggregate(last=Max("claimed_until"))["last"]
        later = Effect.objects.filter(claimed_until__gt=last)
        wait_for(lambda: later.count() == AT_ONCE, 10, "their leases to be renewed")
    finally:
        GO_ON.set()
        threads.close()
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]  # of the backend for PostgreSQL


def test_leases_are_renewed_after_an_error_of_any_kind(
    threads: EffectThreads, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them, another process would ask, and do it again."""
    settings.WEIR_EFFECT_UNKNOWN_AFTER = settings.WEIR_EFFECT_LEASE = 2.0
    renew, failures = LEDGER.renew, [RuntimeError("can't start new thread")]

    def renewed(tokens: Collection[UUID]) -> None:
        if failures:
            raise failures.pop()
        renew(tokens)

    monkeypatch.setattr(LEDGER, "renew", renewed)
    queueing.once("test.hangs", "1")
    threads.take_up()
    wait_for(lambda: states("test.hangs") == ["begun"], 10, "it to begin")
    later = Effect.objects.filter(claimed_until__gt=Effect.objects.get().claimed_until)
    wait_for(later.exists, 10, "its lease to be renewed")


def test_a_process_that_ends_begins_nothing_more_and_waits_for_calls(threads: EffectThreads) -> None:
    queueing.once("test.hangs", "1")
    threads.take_up()
    wait_for(lambda: states("test.hangs") == ["begun"], 10, "it to begin")
    ended = threading.Thread(target=threads.close)
    ended.start()
    queueing.once("test.quick", "1")
    assert threads.take_up() == 0
    GO_ON.set()
    ended.join()
    assert states("test.hangs") == ["done"]
    assert states("test.quick") == ["pending"]
    connection.close()
