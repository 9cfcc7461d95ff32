"""What the demo says of unread numbers and e-mails: the lines under the totals, and the verdict."""

from rich.text import Text

from demo.figures import Emails, Figures, Unread
from demo.report import verdict
from demo.screen import BAD, GOOD, emails_line, unread_line, workers_killed
from tests.cases import for_each

UNREAD = Unread(notified=5_100, marked_read=4_390, unread_reads=1_200, unread_flushes=30, unread_rows_written=3_500)
EMAILS = Emails(shipped=1_500, emails_sent=1_400, emails_failed=50, emails_unknown=40, mailers_killed=30)
FIGURES = Figures(
    fetched=9,
    failed=1,
    failed_on_purpose=1,
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
    shipped=1_500,
    emails_sent=1_400,
    emails_failed=50,
    emails_unknown=40,
    emails_received_twice=0,
    emails_never_received=2,
    mailers_killed=1,
)


def test_the_lines_name_every_figure() -> None:
    """Figures have thousands separators, and one flush is no flushes; pending is all that has no end yet."""
    line = unread_line(Unread(notified=1_234, marked_read=987, unread_reads=56, unread_flushes=1), ", ")
    assert line.plain == "1,234 notified, 987 read, 56 counts asked, 1 flush, 0 rows, 0 drift"
    emails = emails_line(EMAILS, ", ")
    assert emails.plain == "1,500 shipped, 10 pending, 1,400 sent, 50 failed, 40 unknown, 0 received twice"
    assert [workers_killed(1), workers_killed(2)] == ["1 worker killed", "2 workers killed"]


@for_each("line", [unread_line(UNREAD, "  "), emails_line(EMAILS, "  ")])
def test_the_lines_fit_a_narrow_terminal(line: Text) -> None:
    """The figures of a minute have room in 80 columns."""
    assert len(line.plain) <= 80


@for_each(("drift", "style"), [(0, GOOD), (1, BAD)])
def test_drift_stands_out(drift: int, style: str) -> None:
    """A number that was wrong is seen at once."""
    line = unread_line(Unread(unread_drift=drift), " ")
    assert [str(span.style) for span in line.spans][-1] == style


@for_each(("twice", "style"), [(0, GOOD), (1, BAD)])
def test_what_came_twice_stands_out(twice: int, style: str) -> None:
    """An e-mail that was received twice is seen at once."""
    line = emails_line(Emails(emails_received_twice=twice), " ")
    assert [str(span.style) for span in line.spans][-1] == style


def test_the_verdict_has_a_line_for_each_promise() -> None:
    """Requests, unread numbers, of which three were wrong here, and e-mails, of which two are sent and never came."""
    paced, _failed, counted, once = verdict(FIGURES, 10).plain.splitlines()
    assert paced.startswith("0 of 10 requests came early; 95.0% of the allowed rate used")
    assert counted == ("3 of 200 unread numbers drifted from COUNT(*); 400 rows written for 1,500 changes.")
    assert once == ("0 of 1,500 e-mails were received twice, 2 of 1,400 sent ones never; 40 unknown; 1 worker killed.")
