"""What the demo says of unread numbers: the line under the totals, and the verdict."""

import pytest

from project.demo.figures import Figures, Unread
from project.demo.report import verdict
from project.demo.screen import BAD, GOOD, unread_line

UNREAD = Unread(notified=5_100, marked_read=4_390, unread_reads=1_200, unread_flushes=30, unread_rows_written=3_500)
FIGURES = Figures(
    fetched=9,
    failed=1,
    sites=2,
    early_starts=0,
    shortest_gap_ratio=1.0,
    used_share=0.95,
    lateness_p50_ms=1.0,
    lateness_p99_ms=2.0,
    notified=1_000,
    marked_read=500,
    unread_reads=20,
    unread_flushes=3,
    unread_rows_written=400,
    unread_drift=3,
)


def test_the_line_names_every_figure() -> None:
    """Figures have thousands separators, and one flush is no flushes."""
    line = unread_line(Unread(notified=1_234, marked_read=987, unread_reads=56, unread_flushes=1), ", ")
    assert line.plain == "1,234 notified, 987 read, 56 counts asked, 1 flush, 0 rows, 0 drift"


def test_the_line_fits_a_narrow_terminal() -> None:
    """The figures of a minute have room in 80 columns."""
    assert len(unread_line(UNREAD, "  ").plain) <= 80


@pytest.mark.parametrize(("drift", "style"), [(0, GOOD), (1, BAD)])
def test_drift_stands_out(drift: int, style: str) -> None:
    """A number that was wrong is seen at once."""
    line = unread_line(Unread(unread_drift=drift), " ")
    assert [str(span.style) for span in line.spans][-1] == style


def test_the_verdict_has_a_line_for_each_promise() -> None:
    """The first is about requests, the second about unread numbers, of which three were wrong here."""
    paced, counted = verdict(FIGURES, 10).plain.splitlines()
    assert paced.startswith("0 of 10 requests came early; 95.0% of the allowed rate used")
    assert counted == ("3 of 200 unread numbers drifted from COUNT(*); 400 rows written for 1,500 changes.")
