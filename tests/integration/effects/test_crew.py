"""The threads of a process: a call that hangs stops no other kind, and its lease is renewed."""

import threading
from collections.abc import Iterator

import pytest
from django.db import connection
from pytest_django import Settings

from tests.waiting import wait_for
from weir.workers.effects import kinds, queueing
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.attempts import EffectAttempt
from weir.workers.effects.performing.crew import Crew

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
def crew() -> Iterator[Crew]:
    GO_ON.clear()
    made = Crew()
    yield made
    GO_ON.set()
    made.close()
    assert made.wait(10)


def states(kind: str) -> list[str]:
    return list(Effect.objects.filter(kind=kind).order_by("pk").values_list("state", flat=True))


def test_a_kind_that_hangs_stops_no_other_and_no_more_of_it_is_begun_than_it_says(crew: Crew) -> None:
    for number in range(AT_ONCE + 1):
        queueing.once("test.hangs", str(number))
    crew.take_up()
    wait_for(lambda: states("test.hangs").count("begun") == AT_ONCE, 10, "the hanging ones to begin")
    for number in range(10):
        queueing.once("test.quick", str(number))
    crew.take_up()
    wait_for(lambda: set(states("test.quick")) == {"done"}, 10, "the quick ones")
    assert states("test.hangs") == ["begun"] * AT_ONCE + ["pending"]
    GO_ON.set()
    wait_for(lambda: set(states("test.hangs")) == {"done"}, 10, "the rest, by the threads that are free again")


def test_the_lease_of_a_call_that_takes_long_is_renewed(crew: Crew, settings: Settings) -> None:
    settings.WEIR_EFFECT_UNKNOWN_AFTER = settings.WEIR_EFFECT_LEASE = 2.0
    queueing.once("test.hangs", "1")
    crew.take_up()
    wait_for(lambda: states("test.hangs") == ["begun"], 10, "it to begin")
    later = Effect.objects.filter(claimed_until__gt=Effect.objects.get().claimed_until)
    wait_for(later.exists, 10, "its lease to be renewed")


def test_a_process_that_ends_begins_nothing_more_and_waits_for_calls(crew: Crew) -> None:
    queueing.once("test.hangs", "1")
    crew.take_up()
    wait_for(lambda: states("test.hangs") == ["begun"], 10, "it to begin")
    ended = threading.Thread(target=crew.close)
    ended.start()
    queueing.once("test.quick", "1")
    assert crew.take_up() == 0
    GO_ON.set()
    ended.join()
    assert states("test.hangs") == ["done"]
    assert states("test.quick") == ["pending"]
    connection.close()
