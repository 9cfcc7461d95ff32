"""The charts of what was: which number goes into which area, and how far back a chart goes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from weir.ops import histories
from weir.ops.charts import Chart
from weir.ops.snapshots import OverviewSnapshot, Snapshots
from weir.workers.history import reports
from weir.workers.history.reports import Point, SitePoint

ASKED: list[tuple[object, ...]] = []


def point(of: Any, **numbers: float) -> Any:
    """Return a point of which nothing is known but these numbers."""
    return of(**{**dict.fromkeys(of._fields), "since": datetime.now(UTC), "missing": 0, **numbers})


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a history with a different number for each thing."""
    ASKED.clear()
    all_of = dict(zip(Point._fields[2:], range(1, 100), strict=False))
    of_site = dict(zip(SitePoint._fields[2:], range(1, 100), strict=False))

    def minutes(*arguments: object) -> list[Point]:
        ASKED.append(arguments)
        return [point(Point, **all_of)]

    def site_minutes(*arguments: object) -> list[SitePoint]:
        ASKED.append(arguments)
        return [point(SitePoint, **of_site), point(SitePoint, slots_used=1)]

    monkeypatch.setattr(reports, "minutes", minutes)
    monkeypatch.setattr(reports, "site_minutes", site_minutes)
    monkeypatch.setattr(reports, "known_for", lambda: timedelta(days=2))
    monkeypatch.setattr(histories, "_known_for", OverviewSnapshot[Any]())
    for name in ("_all", "_of_site"):
        own = getattr(histories, name)
        monkeypatch.setattr(histories, name, Snapshots[Any](least_life_s=own._least_life_s))
    monkeypatch.setattr("weir.postgres.bounded.reading", _Nothing)


class _Nothing:
    def __init__(self, _seconds: float) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_error: object) -> None: ...


def charts(seen: Any) -> dict[str, Chart]:
    assert seen[1].value is not None, seen
    return seen[1].value  # type: ignore[no-any-return]


def test_each_promise_has_its_chart_with_its_numbers() -> None:
    """Fetches, unread numbers, e-mails."""
    found = charts(histories.of_all("24h"))
    assert {name: chart.alternative for name, chart in found.items()} == {
        "paced": "Fetches, the last 24 h in steps of 10 min: 1 done, 2 failed.",
        "counted": "Unread numbers, the last 24 h in steps of 10 min: 16 numbers changed.",
        "once": "E-mails, the last 24 h in steps of 10 min: 13 sent, 14 failed, 15 unknown.",
    }
    assert [css for css, _ in found["once"].areas] == ["area-bad", "area-soft", "area"]
    assert [css for css, _ in found["paced"].areas] == ["area-bad", "area"]


def test_the_charts_of_a_site_sum_up_fates_and_know_their_gaps() -> None:
    """A sum of which one part is not known is not known."""
    seen = histories.of_site("1h", 7)
    assert seen[1].life_s == pytest.approx(15.0)
    found = charts(seen)
    assert found["slots"].alternative == (
        "Slots, the last 1 h in steps of 1 min: 6 used, 14 given back or void, 16 missed or unreported. "
        "Of 1 of 2 steps of 1 min, nothing is known."
    )
    assert ASKED == [(7, 1, 60)]


@pytest.mark.parametrize(
    ("name", "hours", "points"),
    [("1h", 1, 60), ("24h", 24, 144), ("7d", 168, 168), (None, 24, 144), ("", 24, 144), ("9y", 24, 144)],
)
def test_a_span_is_looked_at_in_its_own_steps_and_the_usual_one_where_none_is_named(
    name: str | None, hours: int, points: int
) -> None:
    """Each is looked at once while it is fresh."""
    span, _ = histories.of_all(name)
    histories.of_all(name)
    assert (span.hours, span.points) == (hours, points)
    assert [(hours, points)] == ASKED
    assert histories.of_all(name)[1].life_s == pytest.approx(15.0)


@pytest.mark.parametrize(("known_for", "hours"), [(timedelta(0), 1), (timedelta(hours=5), 1), (timedelta(hours=7), 24)])
def test_the_usual_span_is_an_hour_while_the_history_is_young(
    monkeypatch: pytest.MonkeyPatch, known_for: timedelta, hours: int
) -> None:
    """A day of which hardly anything is known says nothing."""
    monkeypatch.setattr(reports, "known_for", lambda: known_for)
    assert histories.of_all(None)[0].hours == hours
    assert histories.of_site("9y", 1)[0].hours == hours
    assert histories.of_site("7d", 1)[0].hours == 168


def test_two_sites_have_charts_of_their_own() -> None:
    """And so have two spans of one site."""
    for name, site in (("1h", 1), ("1h", 2), ("24h", 1), ("1h", 1)):
        histories.of_site(name, site)
    assert ASKED == [(1, 1, 60), (2, 1, 60), (1, 24, 144)]
