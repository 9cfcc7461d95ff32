"""A process writes its heartbeat into a row of its own, and a database that is away stops none."""

import os
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F

from tests.integration.conftest import database_now
from tests.waiting import in_time
from weir.ratelimit.round_trips import RoundTrips
from weir.workers.processes import presence
from weir.workers.processes.models import Process
from weir.workers.processes.presence import GAP_S, HEARTBEAT_EVERY_S, Presence
from weir.workers.processes.status import longest_round_trip_s

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Presence:
    """Return the presence of this process, which has had no heartbeat yet."""
    monkeypatch.setattr(presence, "_presence", None)
    return presence.begin("fetcher", "fetcher.1@here")


def heartbeat(here: Presence, *, holds: int = 0, ago_s: float = 0.0) -> Process:
    """Let it write one, as if the last heartbeat was long enough ago; returns its row."""
    here._noted_at = float("-inf")
    here.heartbeat(holds=holds, ago_s=ago_s)
    return Process.objects.get()


def age(**columns: float) -> None:
    """Move times of the row back by so many seconds."""
    Process.objects.update(**{name: F(name) - timedelta(seconds=seconds) for name, seconds in columns.items()})


def test_the_first_heartbeat_makes_it_known(here: Presence) -> None:
    """By its kind, name, host, id and version, and what it holds."""
    row = heartbeat(here, holds=3)
    assert (row.kind, row.name, row.pid, row.holds) == ("fetcher", "fetcher.1@here", os.getpid(), 3)
    assert row.host == presence.host()
    assert row.version
    assert presence.current_id() == row.pk


def test_a_heartbeat_says_when_the_loop_turned(here: Presence) -> None:
    """Not when that was written: a loop that hangs is seen, though a thread beside it goes on."""
    heartbeat(here)
    age(turned_at=60, steady_since=60)
    row = heartbeat(here, holds=7, ago_s=20.0)
    turned_ago = database_now() - row.turned_at
    assert turned_ago > timedelta(seconds=19)
    in_time(turned_ago < timedelta(seconds=22), "the heartbeat")
    assert row.holds == 7


def test_a_heartbeat_says_how_far_postgresql_is(here: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, too: dispatch is not to reserve runs that are over before this process knows of them."""
    for round_trip_s in (0.02, 0.06):
        monkeypatch.setattr(RoundTrips, "expected_s", lambda _round_trips, it=round_trip_s: it)
        assert heartbeat(here).round_trip_s == round_trip_s
        assert longest_round_trip_s() == round_trip_s


def test_heartbeats_are_written_every_two_seconds(here: Presence) -> None:
    """Whoever calls more often costs no more."""
    here.heartbeat(holds=0)
    for _ in range(5):
        here.heartbeat(holds=9)
    assert Process.objects.get().holds == 0
    here._noted_at = time.monotonic() - HEARTBEAT_EVERY_S
    here.heartbeat(holds=9)
    assert Process.objects.get().holds == 9


@pytest.mark.parametrize(("gap_s", "is_steady"), [(GAP_S - 1, True), (GAP_S + 1, False)])
def test_a_gap_between_two_heartbeats_is_remembered(here: Presence, gap_s: float, is_steady: bool) -> None:
    """A process that could write none is no witness of what others did meanwhile."""
    heartbeat(here)
    age(turned_at=gap_s, steady_since=1_000)
    row = heartbeat(here)
    assert (database_now() - row.steady_since > timedelta(seconds=900)) is is_steady


def test_a_process_whose_row_was_purged_gets_a_new_one(here: Presence) -> None:
    """Under a new id: what it claimed before is no more its own."""
    first = heartbeat(here).pk
    Process.objects.all().delete()
    assert heartbeat(here).pk > first
    assert presence.current_id() == Process.objects.get().pk


def test_a_database_that_is_away_stops_nothing(here: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process keeps its id, and its row goes on when the database is back."""
    before = heartbeat(here, holds=1)
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        here._noted_at = float("-inf")
        here.heartbeat(holds=2)
        assert presence.current_id() == before.pk
    after = heartbeat(here, holds=3)
    assert (after.pk, after.holds) == (before.pk, 3)


def test_one_that_ends_in_order_is_forgotten(here: Presence) -> None:
    """It says first that it stops, and a late heartbeat does not bring it back."""
    heartbeat(here)
    here.stop(holds=2)
    row = Process.objects.get()
    assert row.stopping_at
    assert row.holds == 2
    here.end()
    here._noted_at = float("-inf")
    here.heartbeat(holds=0)
    assert not Process.objects.exists()
