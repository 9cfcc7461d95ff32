"""Which processes go on, which are silent, and of which others may take what they hold."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from tests.integration.conftest import database_now
from weir.workers.processes.models import Process
from weir.workers.processes.presence import GAP_S
from weir.workers.processes.status import (
    FAR_FOR_S,
    FORGOTTEN_AFTER_S,
    SILENT_AFTER_S,
    WITNESS_AFTER_S,
    longest_round_trip_s,
    lost,
    processes,
    purge,
)

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 1_000.0


def known(
    name: str, *, silent_s: float, steady_s: float = LONG, stops: bool = False, round_trip_s: float = 0.0
) -> Process:
    """Create a process whose last heartbeat was so long ago, and that had no gap for so long before now."""
    now = database_now()
    return Process.objects.create(
        kind="fetcher",
        name=name,
        host="here",
        pid=1,
        started_at=now - timedelta(seconds=LONG),
        turned_at=now - timedelta(seconds=silent_s),
        steady_since=now - timedelta(seconds=steady_s),
        stopping_at=now if stops else None,
        round_trip_s=round_trip_s,
    )


# What the others' last heartbeats and times without a gap say about a process that has none.
WITNESSES: Mapping[str, tuple[list[tuple[float, float]], bool]] = {
    "another process has made its turns all the time": ([(1, LONG)], True),
    "one of several has": ([(1, 2), (SILENT_AFTER_S + 1, LONG), (1, WITNESS_AFTER_S + 1)], True),
    "there is no other": ([], False),
    "all are silent: nobody ran, or PostgreSQL was away": ([(SILENT_AFTER_S + 1, LONG)], False),
    "PostgreSQL has just come back: the first heartbeat after a gap": ([(0.1, 0.1)], False),
    "the others have had none for long enough since": ([(1, WITNESS_AFTER_S - 2)], False),
    "the only witness is late itself": ([(GAP_S + 1, LONG)], False),
}


@pytest.mark.parametrize("case", WITNESSES)
def test_a_silent_process_is_lost_where_another_one_could_turn(case: str) -> None:
    """What everybody missed was no fault of this process."""
    others, is_lost = WITNESSES[case]
    frozen = known("frozen@here", silent_s=SILENT_AFTER_S + 1)
    for number, (silent_s, steady_s) in enumerate(others):
        known(f"other-{number}@here", silent_s=silent_s, steady_s=steady_s)
    assert (frozen.pk in lost()) is is_lost


def test_a_process_that_turns_in_time_is_never_lost() -> None:
    """However it did before."""
    alive = known("late@here", silent_s=SILENT_AFTER_S - 1, steady_s=0.0)
    known("other@here", silent_s=1)
    assert alive.pk not in lost()


def test_states_say_what_is_to_be_done() -> None:
    """A silent process calls for somebody, also where it was asked to end; unless a later one of its name runs."""
    known("a@here", silent_s=1)
    known("b@here", silent_s=60)
    known("c@here", silent_s=60, stops=True)
    known("d@here", silent_s=60)
    known("d@here", silent_s=1)
    known("e@here", silent_s=1, stops=True)
    states = [(process.name[0], process.state) for process in processes()]
    assert states == [
        ("a", "alive"),
        ("b", "silent"),
        ("c", "silent"),
        ("d", "gone"),
        ("d", "alive"),
        ("e", "stopping"),
    ]
    assert set(lost().values()) == {"b@here", "c@here", "d@here"}


def test_the_longest_round_trip_of_those_that_turn_counts() -> None:
    """A process that says nothing any more has nothing to be in time for."""
    assert longest_round_trip_s() == 0
    known("near@here", silent_s=1, round_trip_s=0.001)
    known("far@here", silent_s=1, round_trip_s=0.04)
    known("dead@here", silent_s=FAR_FOR_S + 1, round_trip_s=0.2)
    assert longest_round_trip_s() == 0.04


def test_the_dead_are_forgotten_after_an_hour() -> None:
    """Until then they are listed, for somebody who looks for what happened."""
    known("old@here", silent_s=FORGOTTEN_AFTER_S + 1)
    known("dead@here", silent_s=FORGOTTEN_AFTER_S - 60)
    known("alive@here", silent_s=1)
    assert purge() == 1
    assert {process.name for process in processes()} == {"dead@here", "alive@here"}
