"""A start that was out of its time is counted, and no other start, in any process, comes too close behind it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection

from tests.integration.conftest import database_now
from tests.integration.plans import plan_of
from tests.integration.ratelimit.conftest import SITE, site_at, take, wait_s
from weir.ratelimit import clock, out_of_time, site_settings, slots
from weir.ratelimit.models import Site, Slot, StartTotal
from weir.ratelimit.out_of_time import MOST_SITES, NotedSite, OutOfTime

pytestmark = pytest.mark.django_db(transaction=True)

NOWHERE = 0  # the id of a slot that was purged
SLACK_S = 2.0  # how long a machine may stand still between two looks


def start(ago_s: float = 0.0, slot_id: int = NOWHERE, site: str = SITE) -> OutOfTime:
    return OutOfTime(site=site, slot_id=slot_id, at=clock.now() - ago_s)


def noted(*starts: OutOfTime) -> NotedSite:
    told = out_of_time.note(starts)
    assert (told.left, told.unknown) == ([], [])
    [site] = told.noted
    return site


def clock_at(seconds: float, burst: int = 1) -> None:
    """Create a site of one start each ten seconds, whose clock is `seconds` ahead."""
    site_at(burst=burst)
    Site.objects.update(next_start=database_now() + timedelta(seconds=seconds))


def test_the_next_start_is_an_interval_behind_it() -> None:
    """By the site's clock, wherever that was: with a burst, each counts as one start more than what was reserved."""
    cases = [  # burst, the clock (seconds ahead), the starts (seconds ago), then the next start in
        (1, -100.0, [0.0], 10.0),
        (1, -100.0, [4.0], 6.0),
        (1, 9.0, [0.5], 9.5),
        (1, 9.0, [0.5, 3.0], 9.5),  # an interval after the last one, however many
        (1, 30.0, [0.5], 30.0),
        (1, -100.0, [60.0], -100.0),  # it is long over
        (3, -100.0, [0.0], -10.0),  # two of the burst are left
        (3, -100.0, [0.0, 0.0], 0.0),
        (3, -100.0, [0.0] * 9, 10.0),  # as many as may start together
        (3, 30.0, [0.0], 20.0),  # the burst was used up by others, and this was one more
        (3, 0.0, [15.0], -10.0),
        (3, 0.0, [31.0], -20.0),
    ]
    for burst, ahead_s, ago_s, expected_s in cases:
        clock_at(ahead_s, burst)
        said = noted(*map(start, ago_s))
        case = (burst, ahead_s, ago_s, said)
        assert said.wait_s == pytest.approx(expected_s, abs=SLACK_S), case
        if ahead_s < 0 < expected_s:
            assert said.wait_s <= expected_s + 0.1, case
            assert wait_s(take()) > said.wait_s - SLACK_S, case


def test_what_is_reserved_behind_it_is_recalled_and_its_own_run_is_not() -> None:
    """Another holder's slots may come too close; the start's own holder keeps the interval by itself."""
    site_at()
    own = take(3)
    assert not noted(start(slot_id=own.slots[0].id)).recalls
    assert slots.confirm(own)
    other = take()
    assert noted(start(slot_id=own.slots[0].id)).recalls
    assert not slots.confirm(own)
    assert not slots.confirm(other)
    later = take()
    assert slots.confirm(later)
    # Its run was recalled: the end of that run tells nothing about what others have reserved since.
    assert noted(start(slot_id=own.slots[2].id)).recalls
    assert not slots.confirm(later)


def test_slots_that_are_over_recall_nothing() -> None:
    """Nor does a start recall anything if it was so long ago that nothing can come too close any more."""
    clock_at(9.0)  # a run that ended a second ago
    assert not noted(start()).recalls
    clock_at(100.0)
    assert not noted(start(60.0)).recalls


def test_a_slot_that_was_given_back_is_not_taken_behind_it() -> None:
    site_at()
    first, second, _ = take(), take(), take()
    slots.release(second.slots[0].id)
    noted(start(slot_id=first.slots[0].id))
    assert wait_s(take()) > 25


def test_the_site_and_all_sites_count_it_and_nothing_looks_like_a_refusal() -> None:
    """The total of all sites stays when a site is deleted."""
    before = site_at()
    began = database_now()
    noted(start(5.0), start(1.0))
    noted(start(30.0))
    site = Site.objects.get()
    assert site.starts_out_of_time == 3
    assert site.out_of_time_at is not None
    assert began - timedelta(seconds=1.1) <= site.out_of_time_at <= database_now() - timedelta(seconds=0.9)
    for field in (
        "paused_until",
        "backed_off_until",
        "backoff_level",
        "backed_off_slot",
        "backoff_error",
        "recalled_at",
    ):
        assert getattr(site, field) == getattr(before, field), field
    site.delete()
    assert StartTotal.objects.get().out_of_time == 3


def test_a_site_that_is_locked_is_told_again_and_holds_up_no_other(
    other_connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    """So are sites that are too many for one statement. Deleted sites are named; a site that covers the host counts."""
    site_at(covers_subdomains=True)
    site_settings.set_rate("locked.example", "1/s")
    below, locked, gone = start(site=f"a.{SITE}"), start(site="locked.example"), start(site="gone.example")
    with other_connection.transaction():
        other_connection.execute("SELECT FROM weir_ratelimit_site WHERE name = 'locked.example' FOR NO KEY UPDATE")
        told = out_of_time.note([start(), below, locked, gone, locked])
    assert [site.name for site in told.noted] == [SITE]
    assert told.left == [replace(locked, starts=2)]
    assert told.unknown == [gone]
    assert Site.objects.get(name=SITE).starts_out_of_time == 2
    assert noted(*told.left).name == "locked.example"
    assert Site.objects.get(name="locked.example").starts_out_of_time == 2
    assert StartTotal.objects.get().out_of_time == 4
    many = [start(site=f"{number}.example") for number in range(MOST_SITES + 7)]
    told = out_of_time.note(many)
    assert (told.unknown, told.left) == (many[:MOST_SITES], many[MOST_SITES:])


def test_it_finds_sites_and_slots_by_their_indexes() -> None:
    """However many there are."""
    site_at()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO weir_ratelimit_site (name, interval, burst, has_backlog, covers_subdomains)"
            " SELECT 'other' || n, '1 s', 1, false, false FROM generate_series(1, 20000) AS n"
        )
        cursor.execute("ANALYZE weir_ratelimit_site")
    parameters: dict[str, Any] = {"names": [SITE], "starts": [1], "slots": [NOWHERE], "agos": [0.0]}
    nodes = plan_of("weir.ratelimit", "start_out_of_time", parameters)
    tables = {Site._meta.db_table, Slot._meta.db_table}
    assert not [n for n in nodes if n["Node Type"] == "Seq Scan" and n["Relation Name"] in tables]
