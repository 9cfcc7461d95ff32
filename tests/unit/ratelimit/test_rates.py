"""Rates are read and written as people spell them: tables, and round trips over everything parsed."""

from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cases import for_each
from weir.conf.texts.rates import (
    FASTEST,
    SLOWEST,
    InvalidRate,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
    rate_text,
)

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MICROSECOND = timedelta(microseconds=1)


@for_each(
    ("text", "interval"),
    [
        ("1/s", timedelta(seconds=1)),
        ("2/s", timedelta(milliseconds=500)),
        ("3/s", timedelta(microseconds=333_334)),
        ("1000/s", timedelta(milliseconds=1)),
        ("1/10s", timedelta(seconds=10)),
        ("5/2s", timedelta(milliseconds=400)),
        ("100/h", timedelta(seconds=36)),
        ("1/day", timedelta(days=1)),
        ("1/366d", timedelta(days=366)),
        ("90/min", timedelta(microseconds=666_667)),
        ("6/1m", timedelta(seconds=10)),
        ("1/hour", timedelta(hours=1)),
        ("2/hours", timedelta(minutes=30)),
        ("7/sec", timedelta(microseconds=142_858)),
        ("10/second", timedelta(milliseconds=100)),
        ("10/seconds", timedelta(milliseconds=100)),
        ("2/minute", timedelta(seconds=30)),
        ("4/minutes", timedelta(seconds=15)),
        ("1/2days", timedelta(days=2)),
        ("  3 / 1 S ", timedelta(microseconds=333_334)),
        ("003/s", timedelta(microseconds=333_334)),
        ("60000/m", timedelta(milliseconds=1)),
        ("86400000/d", timedelta(milliseconds=1)),
    ],
)
def test_a_rate_is_read_as_the_interval_between_two_starts(text: str, interval: timedelta) -> None:
    """COUNT/PERIOD gives the interval, rounded up to a microsecond, in any case and with spaces."""
    assert parse_rate(text) == interval


@for_each(
    "text",
    [
        "", " ", "3", "3/", "/s", "s", "3/s/s", "3/x", "3/ss", "3/month", "3/w", "0/s", "00/s", "3/0s",
        "-1/s", "1.5/s", "1/1.5s", "1e3/s", "3 per s", "3\\s", "+3/s", "٣/s", "3/s;", "1_0/s", "0x3/s",
        "1234567890/s", "inf/s", "nan/s", "None",
    ],
)  # fmt: skip
def test_what_is_no_rate_is_refused_with_the_accepted_forms(text: str) -> None:
    """The refusal repeats the text and shows each form that would have been accepted."""
    with pytest.raises(InvalidRate) as refusal:
        parse_rate(text)
    for part in (repr(text), "COUNT/PERIOD", "3/s", "1/10s", "100/h", "1/day"):
        assert part in str(refusal.value)


@for_each("text", ["1001/s", "999999999/s", "1/367d", "1/999999999d", "60001/m", "1/8785h"])
def test_a_rate_out_of_range_is_refused_with_the_range(text: str) -> None:
    """Faster than 1000/s and slower than 1/366d are refused, and the refusal says both bounds."""
    with pytest.raises(InvalidRate, match=r"1000/s.*1/366d"):
        parse_rate(text)


@given(
    count=st.integers(1, 10**9 - 1),
    periods=st.integers(1, 10**9 - 1),
    unit=st.sampled_from(sorted(UNIT_SECONDS)),
)
def test_the_interval_is_never_faster_than_asked_and_less_than_a_microsecond_slower(
    count: int, periods: int, unit: str
) -> None:
    """`count` starts take the whole period at least, and no interval is a microsecond too long."""
    try:
        interval_us = parse_rate(f"{count}/{periods}{unit}") // MICROSECOND
    except InvalidRate:
        assume(False)
    period_us = periods * UNIT_SECONDS[unit] * 10**6
    assert (interval_us - 1) * count < period_us <= interval_us * count


@given(count=st.integers(1, 1000), periods=st.integers(1, 1000), unit=st.sampled_from(sorted(UNIT_SECONDS)))
def test_every_parsed_rate_is_written_as_a_rate_of_the_same_interval(count: int, periods: int, unit: str) -> None:
    """What is shown to an operator can be typed in again and means the same, whatever the rate was."""
    try:
        interval = parse_rate(f"{count}/{periods}{unit}")
    except InvalidRate:
        assume(False)
    assert parse_rate(format_rate(interval)) == interval


@for_each(
    ("given_as", "written"),
    [
        ("3/s", "3/s"), ("1000/s", "1000/s"), ("1/s", "1/s"), ("60/m", "1/s"), ("90/min", "90/m"),
        ("100/h", "100/h"), ("1/day", "1/d"), ("1/48h", "1/2d"), ("1/90s", "40/h"), ("1/100m", "1/100m"),
        ("1/366d", "1/366d"),
    ],
)  # fmt: skip
def test_a_rate_is_written_in_its_shortest_usual_form(given_as: str, written: str) -> None:
    """A rate is shown by the shortest unit that says it with a whole count."""
    assert format_rate(parse_rate(given_as)) == written


@for_each(
    ("written", "interval", "shown"),
    [
        ("1/2s", timedelta(seconds=2), "1/2s"),
        ("60/m", timedelta(seconds=1), "60/m"),
        ("1/2s", timedelta(seconds=3), "20/m"),
        ("", timedelta(seconds=2), "30/m"),
        ("often", timedelta(seconds=2), "30/m"),
    ],
)
def test_a_rate_is_shown_as_it_was_written_while_it_holds(written: str, interval: timedelta, shown: str) -> None:
    """Where the interval was changed without it, its shortest form is shown."""
    assert rate_text(interval, written) == shown


def test_the_bounds_are_rates_themselves() -> None:
    """The fastest and the slowest interval can be written and read again."""
    assert [parse_rate(format_rate(bound)) for bound in (FASTEST, SLOWEST)] == [FASTEST, SLOWEST]


@for_each(
    ("text", "duration"),
    [
        ("50ms", timedelta(milliseconds=50)),
        ("90s", timedelta(seconds=90)),
        ("10m", timedelta(minutes=10)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        (" 2 Hours ", timedelta(hours=2)),
        ("366d", timedelta(days=366)),
        ("30", timedelta(seconds=30)),
        ("0.5", timedelta(milliseconds=500)),
    ],
)
def test_a_duration_is_read(text: str, duration: timedelta) -> None:
    """A length of time is a whole number and a unit, or a number of seconds."""
    assert parse_duration(text) == duration


@for_each(
    "text", ["", "m", "0m", "-1m", "1.5h", "10x", "1h30m", "367d", "999999999d", "0", "-3", "nan", "1e99", "1e-9"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Nonsense and more than a year are refused with the text and a hint."""
    with pytest.raises(ValueError, match=r"50ms, 90s, 10m, 2h or 1d|at most 366d") as refusal:
        parse_duration(text)
    assert repr(text) in str(refusal.value)


@for_each("text", ["7us", "50ms", "1500ms", "90s", "10m", "2h", "1d", "366d"])
def test_a_duration_is_written_as_it_is_read(text: str) -> None:
    """In the largest unit that expresses it."""
    assert format_duration(parse_duration(text)) == text


def test_no_duration_is_zero_seconds() -> None:
    assert format_duration(timedelta(0)) == "0s"
