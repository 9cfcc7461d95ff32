"""The charts of the last hour, day or week, of all sites or of one site."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from weir.ops.charts import Chart, Series, chart
from weir.ops.snapshots import Look, OverviewSnapshot, Snapshots
from weir.workers.history import reports
from weir.workers.history.reports import Point, SitePoint

LIFE_S: Final = 15.0  # how long a chart's snapshot is fresh, at least; the rollup adds one point each minute


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownSpan:
    """How far a chart goes back."""

    name: str  # in URLs
    label: str
    hours: int
    points: int
    step: str


SPANS: Final = {
    span.name: span
    for span in (
        ShownSpan(name="1h", label="1 h", hours=1, points=60, step="1 min"),
        ShownSpan(name="24h", label="24 h", hours=24, points=144, step="10 min"),
        ShownSpan(name="7d", label="7 days", hours=168, points=168, step="1 h"),
    )
}
YOUNG: Final = timedelta(hours=6)  # a history that is shorter would leave most of a day empty
_known_for: OverviewSnapshot[timedelta] = OverviewSnapshot(least_life_s=LIFE_S)
_all: Snapshots[Sequence[Point]] = Snapshots(least_life_s=LIFE_S)
_of_site: Snapshots[Sequence[SitePoint]] = Snapshots(least_life_s=LIFE_S)


def _span(name: str | None) -> ShownSpan:
    """Return the span with this name; else the usual one: a day, or an hour while the history is young."""
    if name in SPANS:
        return SPANS[name]
    is_young = (_known_for.get(reports.known_for).value or timedelta(0)) < YOUNG
    return SPANS["1h" if is_young else "24h"]


def of_all(name: str | None) -> tuple[ShownSpan, Look[dict[str, Chart]]]:
    """Return the charts of the three promises, over the span with this name; an unknown name selects the usual span."""
    span = _span(name)
    minutes = _all.get(span, lambda: reports.minutes(span.hours, span.points))
    return span, minutes.then(lambda points: {"paced": _fetches(points, span), **_others(points, span)})


def of_site(name: str | None, site_id: int) -> tuple[ShownSpan, Look[dict[str, Chart]]]:
    """Return the charts of one site, as `of_all` does."""
    span = _span(name)
    minutes = _of_site.get((span, site_id), lambda: reports.site_minutes(site_id, span.hours, span.points))
    return span, minutes.then(lambda points: {"fetches": _fetches(points, span), "slots": _slots(points, span)})


def _fetches(points: Sequence[Point] | Sequence[SitePoint], span: ShownSpan) -> Chart:
    series = (
        Series(name="done", css="area", values=[point.fetches_done for point in points]),
        Series(name="failed", css="area-bad", values=[point.fetches_failed for point in points]),
    )
    return chart("Fetches", series, step=span.step, over=span.label)


def _slots(points: Sequence[SitePoint], span: ShownSpan) -> Chart:
    unused = [_sum(point.slots_given_back, point.slots_void) for point in points]
    lost = [_sum(point.slots_missed, point.slots_unreported) for point in points]
    series = (
        Series(name="used", css="area", values=[point.slots_used for point in points]),
        Series(name="given back or void", css="area-soft", values=unused),
        Series(name="missed or unreported", css="area-bad", values=lost),
    )
    return chart("Slots", series, step=span.step, over=span.label)


def _others(points: Sequence[Point], span: ShownSpan) -> dict[str, Chart]:
    flushed = Series(name="numbers changed", css="area", values=[point.unread_flushed for point in points])
    emails = (
        Series(name="sent", css="area", values=[point.emails_sent for point in points]),
        Series(name="failed", css="area-soft", values=[point.emails_failed for point in points]),
        Series(name="unknown", css="area-bad", values=[point.emails_unknown for point in points]),
    )
    return {
        "counted": chart("Unread numbers", [flushed], step=span.step, over=span.label),
        "once": chart("E-mails", emails, step=span.step, over=span.label),
    }


def _sum(*numbers: int | None) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
