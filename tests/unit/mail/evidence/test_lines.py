"""Lines of logs are taken apart, whatever writes them, and their times are the right ones."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tests.cases import for_each
from weir.workers.mail.evidence.formats.lines import Around, FileClock, take_apart

CHANGED = datetime(2026, 11, 23, 18, 0, tzinfo=UTC)
AROUND = Around("")
BERLIN = ZoneInfo("Europe/Berlin")


@for_each(
    ("text", "parts"),
    [
        ("Nov 23 17:20:14 mx1 postfix/qmgr[12]: A1B2C3: removed", "17:20:14 mx1 postfix qmgr 12 A1B2C3: removed"),
        ("Nov  3 17:20:14 mx1 postfix-out/smtp/smtpd[12]: x", "17:20:14 mx1 postfix-out/smtp smtpd 12 x"),
        ("2026-11-23T17:20:14.123456+01:00 mx1 postfix/qmgr[12]: x", "16:20:14 mx1 postfix qmgr 12 x"),
        ("2026-11-23T17:20:14+0000 mx1 postfix/qmgr[12]: x", "17:20:14 mx1 postfix qmgr 12 x"),
        ("2026-11-23T17:20:14Z mx1 postfix/qmgr[12]: x", "17:20:14 mx1 postfix qmgr 12 x"),
        ("<22>Nov 23 17:20:14 mx1 postfix/qmgr[12]: x", "17:20:14 mx1 postfix qmgr 12 x"),
        ("Nov 23 17:20:14 <mail.info> mx1 postfix/qmgr[12]: x", "17:20:14 mx1 postfix qmgr 12 x"),
        ("Nov 23 17:20:14 mx1 postfix/qmgr[12]: [ID 1 mail.info] x", "17:20:14 mx1 postfix qmgr 12 x"),
        ("Nov 23 17:20:14 mx1 rsyslogd: x", "17:20:14 mx1  rsyslogd  x"),
        ("2026-11-23 17:20:14 1rABCD-000001-Aa Completed", "17:20:14   exim  1rABCD-000001-Aa Completed"),
        ("2026-11-23 17:20:14.123 +0100 [99] 1rABCD-000001-Aa x", "16:20:14   exim  1rABCD-000001-Aa x"),
        ("Nov 23 17:20:14 mx1 exim[9]: 2026-11-23 18:20:14 [9] said", "17:20:14 mx1  exim 9 said"),
    ],
)
def test_a_line_is_taken_apart(text: str, parts: str) -> None:
    """Syslog with both kinds of times, as several systems write it, and Exim's own log."""
    line = take_apart(text, FileClock(UTC, CHANGED), AROUND)
    assert line
    assert line.moment.tzinfo == UTC
    assert f"{line.moment:%H:%M:%S} {line.host} {line.instance} {line.program} {line.pid} {line.text}" == parts


@for_each("text", ["", "junk", "Nov 23 17:20:14", "Nov 31 17:20:14 mx1 a[1]: x", "2026-13-01T00:00:00Z a b: c"])
def test_what_is_no_line_of_a_log_is_none(text: str) -> None:
    """Nothing is an error; days that do not exist are no times."""
    assert take_apart(text, FileClock(UTC, CHANGED), AROUND) is None


@for_each(
    ("stamp", "changed", "year"),
    [
        ("Nov 23 17:20:14", "2026-11-23T18:00+00:00", 2026),
        ("Dec 31 23:59:59", "2026-11-23T18:00+00:00", 2025),
        ("Dec 31 23:59:59", "2027-01-01T00:10+00:00", 2026),
        ("Jan  1 00:00:10", "2026-12-31T23:59+00:00", 2027),  # clocks differ
        ("Feb 29 12:00:00", "2026-11-23T18:00+00:00", 2024),
        ("Feb 29 12:00:00", "2104-02-27T18:00+00:00", 2096),
    ],
)
def test_a_time_without_a_year_is_the_last_one_before_the_file_was_changed(stamp: str, changed: str, year: int) -> None:
    """Also at the turn of the year, in leap years, and with clocks that differ by seconds."""
    assert FileClock(UTC, datetime.fromisoformat(changed)).read(stamp)[0].year == year


def test_a_time_without_a_zone_is_in_the_zone_that_is_given_and_may_be_one_of_two() -> None:
    """The hour that comes twice is told, as nobody knows which one it is."""
    clock = FileClock(BERLIN, CHANGED)
    assert clock.read("Jul 23 12:00:00") == (datetime(2026, 7, 23, 10, 0, tzinfo=UTC), False)
    assert clock.read("Nov 23 12:00:00") == (datetime(2026, 11, 23, 11, 0, tzinfo=UTC), False)
    assert clock.read("Oct 25 02:30:00")[1]
    assert not clock.read("2026-10-25T02:30:00+01:00")[1]


def test_a_line_of_a_year_that_utc_has_not_is_none() -> None:
    """A torn log may have any digits."""
    clock = FileClock(UTC, CHANGED)
    assert take_apart("9999-12-31T23:59:59-12:00 mx postfix/smtp[7]: text", clock, AROUND) is None
    assert take_apart("0001-01-01T00:00:00+12:00 mx postfix/smtp[7]: text", clock, AROUND) is None
    assert take_apart("2026-11-23T12:00:00+01:00 mx postfix/smtp[7]: text", clock, AROUND) is not None
