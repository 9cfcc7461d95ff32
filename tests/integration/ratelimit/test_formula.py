"""The arithmetic of starts: PostgreSQL's functions, Python's and the columns of a site compute the same."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from project.checkout import CHECKOUT
from tests.integration.plans import generic_plan_of, plan_of
from tests.integration.ratelimit.conftest import DAY, SITE, site_at
from weir.ratelimit import gcra
from weir.ratelimit.models import PAUSED_FOREVER, Site

pytestmark = pytest.mark.django_db

ROUNDED = 1e-6  # seconds: PostgreSQL counts whole microseconds
FUNCTION = re.compile(r"weir_ratelimit_(?:tolerance|run_length|next_start|start|room|grace|spacing)\(")
intervals = st.integers(1_000, 90_000_000_000).map(lambda us: us / 1e6)


def computed(call: str, *values: Any) -> float:
    """Return what PostgreSQL says."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {call}", values)
        return float(cursor.fetchone()[0])


@given(intervals)
def test_what_a_site_has_of_its_interval(interval_s: float) -> None:
    """The generated columns of a site, and a site that a forecast assumes."""
    interval = timedelta(seconds=interval_s)
    for name in ("spacing", "grace"):
        seconds = computed(f"extract(epoch FROM weir_ratelimit_{name}(%s))", interval)
        assert seconds == pytest.approx(getattr(gcra, f"{name}_s")(interval_s), rel=1e-9, abs=ROUNDED)
    site, _ = Site.objects.update_or_create(name=SITE, defaults={"interval": interval, "burst": 1})
    site.refresh_from_db()
    of_interval: list[Any] = [interval, interval]
    with connection.cursor() as cursor:
        cursor.execute("SELECT weir_ratelimit_spacing(%s), weir_ratelimit_grace(%s)", of_interval)
        assert (site.spacing, site.effective_grace) == cursor.fetchone()


@given(intervals, st.integers(1, 10_000), st.integers(1, 10_000))
def test_lengths_are_the_same(interval_s: float, burst: int, count: int) -> None:
    interval = timedelta(seconds=interval_s)
    tolerance_s = computed("extract(epoch FROM weir_ratelimit_tolerance(%s, %s))", burst, interval)
    assert tolerance_s == pytest.approx(gcra.tolerance_s(burst, interval_s), rel=1e-9, abs=ROUNDED)
    run_length_s = computed("extract(epoch FROM weir_ratelimit_run_length(%s, %s, '20 ms'))", count, interval)
    assert run_length_s == pytest.approx(gcra.run_length_s(count, interval_s, 0.02), rel=1e-9, abs=ROUNDED)


@given(intervals, st.integers(0, 10**12))
def test_the_room_is_the_same(spacing_s: float, ahead_us: int) -> None:
    """Except for a start at the very end, which rounding in Python may move across it."""
    spacing, ahead = timedelta(seconds=spacing_s), timedelta(microseconds=ahead_us)
    places = computed("weir_ratelimit_room(%s, %s)", ahead, spacing)
    assert places in {gcra.room((ahead_us + moved) / 1e6, spacing_s) for moved in (-1e-3, 0, 1e-3)}


@given(
    place=st.integers(0, 10_000),
    arrival_s=st.integers(0, 10**12),
    soonest_s=st.integers(0, 10**12),
    spacing_s=intervals,
    tolerance_s=intervals,
)
def test_a_start_is_the_same(**values: Any) -> None:
    values = {name: value / 1e6 if name in {"arrival_s", "soonest_s"} else value for name, value in values.items()}
    start_s = computed(
        "extract(epoch FROM weir_ratelimit_start(%s, to_timestamp(%s), to_timestamp(%s), %s, %s))",
        values["place"],
        values["arrival_s"],
        values["soonest_s"],
        timedelta(seconds=values["spacing_s"]),
        timedelta(seconds=values["tolerance_s"]),
    )
    assert start_s == pytest.approx(gcra.start_s(**values), rel=1e-9, abs=2 * ROUNDED)


def test_no_statement_computes_it_by_itself() -> None:
    """Except for statements that say how far a whole burst reaches from now."""
    by_hand = re.compile(
        r"burst - 1|\* (?:\w+\.)?spacing\b|\* 1\.01|\* 0\.025|\buse_until \+ (?:\w+\.)?effective_interval"
    )
    files = [file for room in ("ratelimit", "workers", "weir") for file in (CHECKOUT / room).rglob("sql/*.sql")]
    assert [file.name for file in files if by_hand.search(file.read_text())] == []


def test_statements_have_the_functions_inlined() -> None:
    """PostgreSQL plans as if the expression stood in the statement, and calls nothing."""
    site_at()
    asked = {"site": SITE, "count": 1, "added_grace": 0.0}
    plans = [
        plan_of("weir.ratelimit", "reserve", {**asked, "places": [0], "max_wait": DAY}),
        plan_of("weir.ratelimit", "take_given_back", {**asked, "max_wait": DAY}),
        plan_of("weir.ratelimit", "estimate", {**asked, "forever": PAUSED_FOREVER}),
        generic_plan_of("weir.ratelimit", "reserve"),
    ]
    assert FUNCTION.search(str(plans)) is None
