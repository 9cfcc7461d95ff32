"""Slots that passed long ago go in short batches; the clock of the site stays."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.integration.conftest import database_now, waiting_for_nobody
from tests.integration.ratelimit.conftest import site_at, take, wait_s
from weir.ratelimit import slots
from weir.ratelimit.models import Site, Slot

pytestmark = pytest.mark.django_db(transaction=True)


def grown_old(count: int, age: timedelta) -> None:
    """Make `count` slots whose start lies that far back."""
    start = database_now() - age
    site = Site.objects.get()
    Slot.objects.bulk_create([Slot(site=site, start_time=start, use_until=start) for _ in range(count)])


def test_only_slots_that_passed_long_enough_ago_are_purged() -> None:
    """Finished, given back or forgotten: older slots are deleted, younger ones and those to come stay."""
    site_at()
    grown_old(5, timedelta(hours=2))
    grown_old(3, timedelta(minutes=30))
    slots.finish(Slot.objects.earliest("pk").pk)
    held = [take(), take()]
    assert slots.purge(timedelta(hours=1)) == 5
    assert Slot.objects.count() == 3 + len(held)
    assert slots.purge(timedelta(hours=1)) == 0


def test_purging_everything_does_not_forget_the_last_start() -> None:
    """The clock is at the site's row: without any slot the interval still holds."""
    site = site_at()
    take()
    assert slots.purge(timedelta(0)) == 1
    assert wait_s(take()) > site.interval.total_seconds() - 1


def test_purge_goes_on_until_a_batch_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short batches, as many as it takes, and the sum of them."""
    monkeypatch.setattr(slots, "PURGE_BATCH", 10)
    site_at()
    grown_old(35, timedelta(hours=2))
    assert slots.purge(timedelta(hours=1)) == 35
    assert not Slot.objects.exists()


def test_a_purge_that_has_no_more_time_leaves_the_rest_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many slots there are, a purge ends."""
    monkeypatch.setattr(slots, "PURGE_BATCH", 10)
    site_at()
    grown_old(25, timedelta(hours=2))
    assert [slots.purge(timedelta(hours=1), within_s=0.0) for _ in range(4)] == [10, 10, 5, 0]


def test_what_was_reserved_far_ahead_hides_no_old_slot_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches follow the order of reservation: one that only holds starts still to come is not the end."""
    monkeypatch.setattr(slots, "PURGE_BATCH", 10)
    site_at()
    grown_old(25, timedelta(hours=-2))
    Slot.objects.update(reserved_at=database_now() - timedelta(hours=3))
    grown_old(5, timedelta(hours=2))
    assert slots.purge(timedelta(hours=1)) == 5
    assert Slot.objects.count() == 25


def test_purge_ends_where_everything_was_reserved_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour's slots are not read for the few that passed long ago."""
    monkeypatch.setattr(slots, "PURGE_BATCH", 10)
    batches: list[int] = []
    purge_slots = slots.PURGE_SLOTS

    def counted(**parameters: Any) -> list[Any]:
        batches.append(1)
        return purge_slots(**parameters)

    site_at()
    grown_old(5, timedelta(hours=2))
    grown_old(200, timedelta(minutes=30))
    monkeypatch.setattr(slots, "PURGE_SLOTS", counted)
    assert slots.purge(timedelta(hours=1)) == 5
    assert len(batches) == 2


def test_purge_leaves_what_others_hold(other_connection: psycopg.Connection[Any]) -> None:
    """A locked slot is left for the next time, and never waited for."""
    site_at()
    grown_old(5, timedelta(hours=2))
    other_connection.execute("SELECT id FROM weir_ratelimit_slot ORDER BY id LIMIT 2 FOR UPDATE")
    with waiting_for_nobody():
        assert slots.purge(timedelta(hours=1)) == 3
    other_connection.rollback()
    assert slots.purge(timedelta(hours=1)) == 2
