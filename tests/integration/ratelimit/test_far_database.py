"""A database that is far away: what its round trips add to the grace, and that starts come in time, and never early."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from demo.fakes.distance import Distance, distance
from project import embedded
from tests.integration.conftest import StartPython
from tests.waiting import in_time
from weir.ratelimit import clock, round_trips, site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.round_trips import RoundTrips

pytestmark = pytest.mark.django_db(transaction=True)

SITE, SLOW_SITE = "site.example", "slow.example"
ROUND_TRIP_S = 0.05
StartFar = Callable[..., list[float]]

USE = """
import json, time
from weir.ratelimit.throttle import throttle
began_at, starts = time.monotonic(), []
for site in sys.argv[1:]:
    with throttle(site):
        starts.append(time.monotonic() - began_at)
print(json.dumps(starts), flush=True)
"""


@pytest.fixture(autouse=True)
def near_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process, which is near, measure anew in each test."""
    monkeypatch.setattr(round_trips, "of_process", RoundTrips())


@pytest.fixture
def far() -> Iterator[Distance]:
    """Return PostgreSQL at a distance."""
    socket = embedded.postgres_socket_dir(Path(settings.EMBEDDED_HOME)) / ".s.PGSQL.5432"
    with distance(socket, ROUND_TRIP_S) as far_away:
        yield far_away


@pytest.fixture
def start_far(start_python: StartPython, far: Distance) -> StartFar:
    """Return a function that lets a process start this often, far from PostgreSQL, and returns when it did."""
    database = f"postgresql://{embedded.DATABASE_USER}@127.0.0.1:{far.port}/{connection.settings_dict['NAME']}"

    def start(script: str, *arguments: object) -> list[float]:
        environment = {"DATABASE_URL": database, "DJANGO_SECRET_KEY": secrets.token_urlsafe(50)}
        process = start_python(script, *arguments, environment=environment)
        starts: list[float] = json.loads(process.communicate(timeout=60)[0])
        return starts

    return start


def test_a_distant_server_is_distant(far: Distance) -> None:
    """The fake that the other tests rely on: a round trip takes as long as it says, and little more."""
    parameters = {**connection.get_connection_params(), "cursor_factory": psycopg.Cursor}
    with psycopg.connect(**{**parameters, "host": "127.0.0.1", "port": far.port}, autocommit=True) as distant:
        began_at = time.monotonic()
        distant.execute("SELECT 1")
        assert time.monotonic() - began_at >= ROUND_TRIP_S


def test_callers_far_away_start_in_time_and_never_early(start_far: StartFar) -> None:
    """The first slot is given back immediately, because nothing was measured; then the grace is long enough.

    The 20 starts take three runs, of 1, 4 and 16 (run_size.GROWTH).
    """
    site_settings.set_rate(SLOW_SITE, "1/s")
    site_settings.set_rate(SITE, "10/s")
    first, *starts = start_far(USE, SLOW_SITE, *[SITE] * 20)
    in_time(first < 1.0, "the first start, with the connection, which takes some round trips")
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 0.1
    runs = Slot.objects.filter(site__name=SITE).values("use_until").distinct().count()
    in_time(runs <= 3, f"callers for {runs} runs")
    in_time(starts[-1] - starts[0] < 19 * 0.1 / 0.6, "the last start, at six tenths of the rate")
    assert Slot.objects.filter(finished_at__isnull=False).count() == 21
    slow = Site.objects.get(name=SLOW_SITE)
    assert slow.next_start - Slot.objects.filter(site=slow).latest("id").use_until == timedelta(seconds=1)


def test_what_a_process_measures_is_added_to_its_reservations(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing where round trips are short. Where one takes longer than those, it would reserve once more."""
    monkeypatch.setattr(slots.Reservation, "is_too_short", lambda _reservation: False)
    site_settings.set_rate(SITE, "1/s", grace=timedelta(milliseconds=30))
    for round_trip_s, grace_s in ((0.002, 0.030), (0.042, 0.110)):
        round_trips.of_process = RoundTrips()
        round_trips.of_process.note(round_trip_s)
        reservation = slots.reserve(SITE)
        slot = Slot.objects.get(pk=reservation.slots[0].id)
        assert (slot.use_until - slot.start_time).total_seconds() == pytest.approx(grace_s)
        assert Site.objects.get().next_start == slot.use_until + timedelta(seconds=1)
        assert reservation.grace_s == pytest.approx(grace_s)


def test_a_given_back_slot_is_left_to_processes_that_are_near() -> None:
    """Its run would be over before a distant process could be sure of it."""
    site_settings.set_rate(SITE, "1/s")
    slots.reserve(SITE)
    slots.release(slots.reserve(SITE).slots[0].id)
    round_trips.of_process.note(0.1)
    behind_s = slots.reserve(SITE).slots[0].start_at - clock.now()
    round_trips.of_process = RoundTrips()
    given_back_s = slots.reserve(SITE).slots[0].start_at - clock.now()
    assert given_back_s < 1.5 < behind_s


def test_a_round_trip_is_measured_without_the_wait_for_a_lock(other_connection: psycopg.Connection[object]) -> None:
    """A busy site is not a distant database."""
    site_settings.set_rate(SITE, "1/s")
    slots.reserve(SITE)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")
    threading.Timer(0.6, other_connection.rollback).start()
    slots.reserve(SITE)
    assert round_trips.of_process.expected_s() < 0.5


def test_a_slot_that_a_distant_process_gave_back_is_never_counted_as_earlier() -> None:
    """A near one that takes it, and gives it back before its time, leaves the site free no sooner than the slot was."""
    site_settings.set_rate(SITE, "1/s")
    slots.reserve(SITE)
    round_trips.of_process.note(ROUND_TRIP_S)
    given_back = slots.reserve(SITE).slots[0]
    slots.release(given_back.id)
    round_trips.of_process = RoundTrips()
    taken = slots.reserve(SITE)
    [slot] = taken.slots
    assert slot.start_at == pytest.approx(given_back.start_at, abs=0.05)
    assert slot.start_at <= taken.arrival_at <= slot.start_at + 2 * ROUND_TRIP_S
    slots.hand_back([slot.id], taken.arrival_at - clock.now())
    assert slots.reserve(SITE).slots[0].start_at >= slot.start_at
