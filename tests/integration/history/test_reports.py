"""Reports of the history: evenly spaced sums, in which a gap is no zero."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection

from tests.integration.history.conftest import MINUTE, SECOND, Past
from tests.integration.plans import rows_read
from weir.ratelimit.models import Site, Slot
from weir.workers.history import reports, rollup
from weir.workers.history.models import Minute, SiteMinute
from weir.workers.history.reports import minutes, site_minutes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rolled_up(past: Past) -> Past:
    """Create a used slot in each minute of the last forty, at one site."""
    site = Site.objects.get(name="b.example")
    starts = [past.at(minute) for minute in range(40)]
    Slot.objects.bulk_create(
        Slot(site=site, start_time=start, use_until=start, interval=SECOND, finished_at=start) for start in starts
    )
    rollup.roll_up()
    return past


@pytest.mark.parametrize(("hours", "points", "step"), [(1, 60, 1), (1, 6, 10), (24, 96, 15), (168, 168, 60), (1, 7, 9)])
def test_points_are_evenly_spaced(rolled_up: Past, hours: int, points: int, step: int) -> None:
    """As many as were asked for, the oldest first; each says how many of its minutes are not known."""
    seen = minutes(hours, points)

    assert len(seen) == points
    assert {later.since - earlier.since for earlier, later in pairwise(seen)} == {step * MINUTE}
    known = Minute.objects.filter(minute__gte=seen[0].since, minute__lt=seen[-1].since + step * MINUTE).count()
    assert sum(point.slots_used or 0 for point in seen) == known > 30
    assert sum(step - point.missing for point in seen) == known
    assert rolled_up.began


def test_a_gap_is_no_zero(rolled_up: Past) -> None:
    """A step of which no minute is known has no sums; one of which some are known says how many are not."""
    Minute.objects.filter(minute__gte=rolled_up.at(10), minute__lt=rolled_up.at(20)).delete()

    by_minute = {point.since: point for point in minutes(1, 60)}
    assert (by_minute[rolled_up.at(9)].slots_used, by_minute[rolled_up.at(9)].missing) == (1, 0)
    assert (by_minute[rolled_up.at(10)].slots_used, by_minute[rolled_up.at(10)].missing) == (None, 1)
    assert (by_minute[rolled_up.at(9)].fetches_done, by_minute[rolled_up.at(10)].fetches_done) == (0, None)
    in_part = [point for point in minutes(1, 6) if 0 < point.missing < 10]
    assert all(point.slots_used == 10 - point.missing for point in in_part)


def test_the_end_is_where_the_rollup_should_be(rolled_up: Past) -> None:
    """While it keeps up, no minute at the end is missing; when it does not, that is seen."""
    assert minutes(1, 60)[-1].missing == 0

    Minute.objects.filter(minute__gte=rolled_up.at(30)).delete()
    assert [point.missing for point in minutes(1, 60)[-3:]] == [1, 1, 1]


def test_a_site_has_its_own(rolled_up: Past) -> None:
    """A minute without a row is zero, unless the site may have been crowded out by busier ones, or it is a gap."""
    site, other = Site.objects.get(name="b.example"), Site.objects.get(name="a.example")
    SiteMinute.objects.filter(minute__in=[rolled_up.at(12), rolled_up.at(13)]).delete()
    Minute.objects.filter(minute=rolled_up.at(13)).update(has_all_sites=False)

    by_minute = {point.since: point.slots_used for point in site_minutes(site.pk, 1, 60)}

    assert [by_minute[rolled_up.at(minute)] for minute in (11, 12, 13)] == [1, 0, None]
    [fetches] = {point.fetches_done for point in site_minutes(site.pk, 1, 60) if point.since == rolled_up.at(12)}
    assert fetches == 0
    of_other = {point.since: (point.slots_used, point.missing) for point in site_minutes(other.pk, 1, 60)}
    assert [of_other[rolled_up.at(minute)] for minute in (12, 13, -1)] == [(0, 0), (None, 1), (None, 1)]


def test_a_minute_with_more_sites_than_rows_does_not_have_all(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a site without a row may have had something."""
    past.fill(minutes=2, each=30)
    monkeypatch.setattr(rollup, "MOST_SITES", 2)
    rollup.roll_up(1)
    monkeypatch.setattr(rollup, "MOST_SITES", 3)
    rollup.roll_up(1)
    assert list(Minute.objects.order_by("minute").values_list("has_all_sites", flat=True)) == [False, True]


def test_how_long_the_history_is(rolled_up: Past) -> None:
    assert 40 * MINUTE <= reports.known_for() < 50 * MINUTE
    Minute.objects.all().delete()
    assert reports.known_for() == 0 * MINUTE
    assert rolled_up.began


@pytest.mark.parametrize(("hours", "points"), [(0, 1), (1, 0), (24, 1_001), (400 * 24, 1)])
def test_numbers_out_of_range_are_refused(hours: int, points: int) -> None:
    """A page asks for what it can show."""
    with pytest.raises(ValueError, match="hours must be"):
        minutes(hours, points)


def test_only_rows_of_the_period_are_read(rolled_up: Past) -> None:
    """By an index, also where a week of many sites is kept."""
    SiteMinute.objects.bulk_create(
        SiteMinute(minute=rolled_up.at(-minute), site_id=site) for minute in range(1, 400) for site in range(1000, 1020)
    )
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'weir_history_siteminute'::regclass")
    steps = reports._steps(1, 12)
    assert rows_read("weir.workers.history", "site_minutes", {**steps, "site": 1_005}, "weir_history_siteminute") <= 60
    assert rows_read("weir.workers.history", "minutes", steps, "weir_history_minute") <= 60
    assert timedelta(hours=1) == steps["step"] * 12  # type: ignore[operator]
