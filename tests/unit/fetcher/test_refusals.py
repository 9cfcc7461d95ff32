"""What answers ask of us beside their meaning for a fetch, in all the forms in which sites write it."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from tests.proportion import times_as_long
from weir.ratelimit.models import LONGEST_REASON
from weir.ratelimit.site_settings import SHORTEST_BACK_OFF
from weir.workers.fetches.fetcher.refusals.asked import TEMPORARY, AskedPause, asks_to_rest, redirect_wait_s
from weir.workers.fetches.fetcher.refusals.quotas import NAMES

DATE = "Sat, 21 Nov 2026 10:00:00 GMT"
AT_S = int(datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp())
Lines = Sequence[tuple[str, str]]

# Finding 8 of the review of the wire, and its kind: what Retry-After says, and the seconds that it asks for.
RETRY_AFTER: list[tuple[str, float | None]] = [
    ("12", 12.0),
    ("120", 120.0),
    (" \t12 ", 12.0),
    ("12.0", 12.0),
    ("12.5", 13.0),
    ("12.", 12.0),
    ("0.2", 1.0),
    ("0, 12", 12.0),
    ("12,5", 12.0),
    ("5, Sat, 21 Nov 2026 10:02:00 GMT", 120.0),
    ("Saturday, 21-Nov-26 10:02:00 GMT,5", 120.0),
    ("2026-11-21T10:02:00Z, 5, Sat, 21 Nov 2026 10:01:00 GMT", 120.0),
    (f"{AT_S + 12}", 12.0),
    (f"{AT_S + 12}.25", 13.0),
    (f"{AT_S + 12}000", 12.0),
    (f"{AT_S + 12}400", 13.0),
    (f"{AT_S - 1}", None),
    ("9" * 18, float("9" * 18)),
    ("9" * 60, float("9" * 60)),
    ("Sat, 21 Nov 2026 10:02:00 GMT", 120.0),
    ("Sat, 21 Nov 2026 10:02:00 +0000", 120.0),
    ("Sat, 21 Nov 2026 12:02:00 +0200", 120.0),
    ("Saturday, 21-Nov-26 10:02:00 GMT", 120.0),
    ("Sat Nov 21 10:02:00 2026", 120.0),
    ("2026-11-21T10:02:00Z", 120.0),
    ("2026-11-21t10:02:00z", 120.0),
    ("2026-11-21T10:02:00.250Z", 121.0),
    ("2026-11-21T12:02:00+02:00", 120.0),
    ("2026-11-21 10:02:00", 120.0),
    ("2026-11-21T10:02Z", 120.0),
    ("Sat, 21 Nov 2026 10:01:60 GMT", 120.0),  # a leap second
    ("2026-11-21T10:01:60Z", 120.0),
    ("Sat, 21 Nov 2026 24:00:00 GMT", 14 * 3600.0),
    ("2026-11-21T24:00:00Z", 14 * 3600.0),
    ("12s", 12.0),
    ("1.5s", 2.0),
    ("500ms", 1.0),
    ("6m0s", 360.0),
    ("1h2m3.5s", 3_724.0),
    ("1D", 86_400.0),
    ("5, 2m", 120.0),
    ("Sat, 21 Nov 2026 10:00:00 GMT", None),
    ("Sat, 21 Nov 2026 09:59:00 GMT", None),
    *(
        (nonsense, None)
        for nonsense in (
            "0",
            "0.0",
            "",
            " ",
            "-5",
            "+5",
            "soon",
            "1e3",
            "inf",
            "nan",
            "12 s",
            "1_000",
            ".5",
            "0s",
            "1y",
        )
    ),
    *(
        (nonsense, None)
        for nonsense in ("١٢", "12;q=1", "9" * 400, "Sat, 99 Nov 2026 09:59:00 GMT", "2026-13-01T00:00:00Z")
    ),
    ("Sat, 21 Nov 2026 24:00:01 GMT", None),
    ("Sat, 21 Nov 2026 10:60:00 GMT", None),
    ("Sat, 21 Nov 2026 10:02:61 GMT", None),
    ("Fri, 31 Dec 99999999999999999999 23:59:59 GMT", None),
    ("Fri, 31 Dec 9999 24:00:00 GMT", None),
    ("Sat, 21 Nov 2026 10:02:00 GMT (\x1b[31m)", None),
    ("Sat, 21 Nov 2026 10:02:00 GMT (\0)", None),
    ("Sat, 21 Nov 2026 10:02:00 +99999999999999999999", None),
]

# An answer's headers, and the seconds for which its site rests; None where it need not.
QUOTAS: list[tuple[Lines, float | None]] = [
    ([("RateLimit", '"default";r=0;t=12')], 12.0),
    ([("ratelimit", "default;r=0;t=12")], 12.0),
    ([("RateLimit", '"default";r=1;t=12')], None),
    ([("RateLimit", '"burst";r=0;t=3, "day";r=0;t=60, "hour";r=7;t=900')], 60.0),
    ([("RateLimit", '"burst";r=0;t=3'), ("RateLimit", '"day";r=0;t=60')], 60.0),
    ([("RateLimit", '"default";r=0;t=0')], None),
    ([("RateLimit", '"default";r=0')], SHORTEST_BACK_OFF),
    ([("RateLimit", '"d";r=0'), ("RateLimit-Policy", '"d";q=10;w=600')], 60.0),
    ([("RateLimit", '"d";r=0'), ("RateLimit-Policy", '"e";q=10;w=600')], SHORTEST_BACK_OFF),
    ([("RateLimit", '"d";r=0'), ("RateLimit-Policy", '"d";q=100;w=10')], SHORTEST_BACK_OFF),
    ([("RateLimit", '"d";r=0;t=9'), ("RateLimit-Policy", '"d";q=4;qu="concurrent-requests"')], None),
    ([("RateLimit", "limit=100, remaining=0, reset=12")], 12.0),
    ([("RateLimit", "limit=100, remaining=3, reset=12")], None),
    ([("RateLimit", "limit=100, remaining=0"), ("RateLimit-Policy", "100;w=3000")], 30.0),
    ([("RateLimit", '"default";r="0";t=12')], None),
    ([("RateLimit", '"default";r=0;t=12, ')], None),
    ([("RateLimit", "0")], None),
    ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "12")], 12.0),
    ([("RateLimit-Remaining", "5"), ("RateLimit-Reset", "12")], None),
    ([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "0")], None),
    ([("RateLimit-Limit", "100, 100;w=3000"), ("RateLimit-Remaining", "0")], 30.0),
    ([("ratelimit-limit", "100;w=21600"), ("ratelimit-remaining", "0;w=21600")], 216.0),
    ([("RateLimit-Reset", "12")], None),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "12")], 12.0),
    ([("x-ratelimit-remaining", "0.0"), ("x-ratelimit-reset", "11.5")], 12.0),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", f"{AT_S + 12}")], 12.0),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", f"{AT_S + 12}.1")], 13.0),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", f"{AT_S + 12}000")], 12.0),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "2026-11-21T10:00:12Z")], 12.0),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", f"{AT_S}")], None),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset-After", "11.2")], 12.0),
    ([("X-Rate-Limit-Remaining", "0"), ("X-Rate-Limit-Reset", "12")], 12.0),
    ([("X-RateLimit-Remaining", "0")], SHORTEST_BACK_OFF),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "soon")], SHORTEST_BACK_OFF),
    ([("X-RateLimit-Limit", "0"), ("X-RateLimit-Remaining", "0")], None),  # there is no quota
    ([("X-RateLimit-Limit", "-1"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "12")], None),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "6m0s")], 360.0),
    ([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "0s")], None),
    ([("X-RateLimit-Remaining", "-1"), ("X-RateLimit-Reset", "12")], None),
    ([("X-RateLimit-Remaining", "4"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "12")], 12.0),
    ([("X-RateLimit-Remaining", "0"), ("Y-RateLimit-Reset", "12")], SHORTEST_BACK_OFF),
    ([("Retry-After", "12")], None),  # of an answer that refuses nothing
    ([("Retry-After", "60"), ("RateLimit", '"default";r=0;t=12')], 12.0),
]

# A status, headers, what the site's settings name, and whether it refuses; with the seconds.
REFUSALS: list[tuple[int, Lines, Sequence[int] | None, bool, float | None]] = [
    (429, [], None, True, None),
    (503, [("Retry-After", "12")], None, True, 12.0),
    (429, [("Retry-After", "0"), ("Retry-After", "12"), ("Retry-After", "3")], None, True, 12.0),
    (429, [("Retry-After", "soon")], None, True, None),
    (429, [("X-RateLimit-Reset", "12")], None, True, 12.0),
    (429, [("RateLimit-Reset", "12")], None, True, 12.0),
    (429, [("X-RateLimit-Remaining", "7"), ("X-RateLimit-Reset", "3600")], None, True, None),
    (429, [("RateLimit", '"default";r=0;t=60'), ("Retry-After", "12")], None, True, 12.0),
    (429, [("RateLimit", '"default";r=0')], None, True, None),
    *((status, [("Retry-After", "12")], None, True, 12.0) for status in sorted(TEMPORARY)),
    *((status, [], None, False, None) for status in sorted(TEMPORARY)),
    *((status, [("Retry-After", "soon")], None, False, None) for status in sorted(TEMPORARY)),
    (403, [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", f"{AT_S + 12}")], None, True, 12.0),
    (403, [("X-RateLimit-Remaining", "7"), ("X-RateLimit-Reset", "12")], None, False, None),
    *((status, [("Retry-After", "12")], None, False, None) for status in (200, 202, 301, 304, 401, 404, 500)),
    (404, [], (404, 429, 503), True, None),
    (999, [], (429, 503, 999), True, None),
    (403, [("Retry-After", "12")], (429, 503), False, None),
    (429, [], (429, 503), True, None),
]


def raw(lines: Lines) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in [("Server", "x"), *lines, ("Date", DATE)]]


def refused(retry_after: str, *, date: str = DATE) -> AskedPause:
    headers = [(b"date", date.encode()), (b"retry-after", retry_after.encode())]
    asked = asks_to_rest(429, headers if date else headers[1:])
    assert asked is not None
    assert asked.is_refusal
    return asked


def test_every_form_of_retry_after_is_seconds_from_the_answer_on() -> None:
    """Decimals are rounded up, moments counted from the answer's Date; what is nonsense, or over, states nothing."""
    for text, seconds in RETRY_AFTER:
        assert (refused(text).seconds, refused(text).until) == (seconds, None), text


def test_a_moment_without_the_sites_own_clock_is_left_to_the_database() -> None:
    """An answer without a Date, or with one that cannot be read, states a moment, not a time."""
    at = datetime(2026, 11, 21, 10, 0, 12, tzinfo=UTC)
    for date in ("", "nonsense"):
        for text in ("Sat, 21 Nov 2026 10:00:12 GMT", f"{AT_S + 12}", f"{AT_S + 12}000", "2026-11-21T10:00:12Z"):
            asked = refused(text, date=date)
            assert (asked.seconds, asked.until) == (None, at), (text, date)


def test_a_quota_that_is_used_up_asks_for_a_rest_until_its_reset() -> None:
    """Whatever the answer is, and by any family of headers; it is no refusal."""
    for lines, seconds in QUOTAS:
        for status in (200, 302, 404, 500):
            asked = asks_to_rest(status, raw(lines))
            assert (None if asked is None else asked.seconds) == seconds, (status, lines)
            assert asked is None or not asked.is_refusal


def test_which_statuses_refuse() -> None:
    """429 and 503 do; others where they say until when; and those that the settings of the site name, in any case."""
    for status, lines, refusing, refuses, seconds in REFUSALS:
        asked = asks_to_rest(status, raw(lines), refusing)
        found = (asked is not None and asked.is_refusal, asked.seconds if asked and asked.is_refusal else None)
        assert found == (refuses, seconds), (status, lines, refusing)


def test_what_it_asks_is_said_in_words() -> None:
    """For those who ask why a fetch waits."""
    for status, lines, reason in [
        (403, [("Retry-After", "12")], "it answered 403 with Retry-After: 12"),
        (429, [], "it answered 429"),
        (429, [("X-RateLimit-Reset", "9")], "it answered 429, and its quota is used up (X-RateLimit-Reset)"),
        (200, [("RateLimit", "a;r=0;t=9")], "its quota is used up (RateLimit)"),
        (200, [("x-ratelimit-remaining", "0")], "its quota is used up (X-RateLimit-Remaining)"),
    ]:
        asked = asks_to_rest(status, raw(lines))
        assert asked is not None
        assert asked.reason == reason


def test_a_redirect_may_ask_to_wait() -> None:
    """In the same forms, for a day at most."""
    for lines, seconds in [([], 0.0), ([("Retry-After", "12.5")], 13.0), ([("retry-after", "9" * 9)], 86_400.0)]:
        assert redirect_wait_s(raw(lines), 86_400.0) == seconds
    assert redirect_wait_s(raw([("Retry-After", "never")]), 86_400.0) == 0.0
    assert redirect_wait_s(raw([("Retry-After", "7200")]), 3_600.0) == 3_600.0
    assert redirect_wait_s(raw([("Retry-Later", "12")]), 3_600.0) == 0.0


@given(
    st.integers(100, 999),
    st.lists(
        st.tuples(
            st.sampled_from([b"Date", b"Retry-After", *sorted(NAMES), b""]),
            st.one_of(st.binary(max_size=80), st.from_regex(rb'["a-z0-9;=,. :+TZ-]{0,60}', fullmatch=True)),
        ),
        max_size=8,
    ),
)
def test_no_header_is_an_error(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    """Whatever a site sends, it asks for something, or nothing; a stated time is more than 0, a reason can be shown."""
    asked = asks_to_rest(status, headers)
    assert asked is None or asked.seconds is None or asked.seconds > 0
    assert asked is None or (asked.reason.isprintable() and len(asked.reason) <= LONGEST_REASON)
    assert 0.0 <= redirect_wait_s(headers, 86_400.0) <= 86_400.0


def test_hostile_headers_cost_next_to_nothing() -> None:
    """Values of 64 KiB, and 256 lines of what takes longest to read, take not much longer than 16 usual answers."""
    names = [b"Retry-After", *sorted(NAMES)]
    values = [
        b"a,",
        b'"a";r=0,',
        b"1",
        b"1, ",
        b" ",
        b'"',
        b"(",
        b";a=1",
        b'%"%c3',
        b"12:00:00",
        b"Sat, ",
        b"2026-",
        b"0",
    ]
    for value in values:
        for size in (60, 120, 1_000, 65_536):
            for lines in (1, 256 if size < 1_000 else 4):
                headers = [(b"Date", DATE.encode())] + [
                    (name, (value * size)[:size]) for _ in range(lines) for name in random.sample(names, len(names))
                ]
                assert look_ratio(headers[: 257 if lines > 1 else None]) < 4, (value, size, lines)


def look_ratio(headers: list[tuple[bytes, bytes]]) -> float:
    """Return how many times as long a look takes as one at each of sixteen answers with as many usual lines."""
    usual = [(name, DATE.encode()) for name in (b"Date", b"Retry-After", *sorted(NAMES))]

    def look_at_usual() -> None:
        for _ in range(16):
            asks_to_rest(429, usual)

    return times_as_long(lambda: asks_to_rest(429, headers), look_at_usual, 4)


@for_each("status", [200, 304])
def test_an_answer_that_asks_for_nothing_costs_a_glance(status: int) -> None:
    """The loop looks at each answer: twenty usual headers take not much longer than to write their names small."""
    names = ("Server", "Content-Type", "Vary", "ETag", "Via", "Age", "Link", "Set-Cookie", "Expires", "Connection")
    headers = [(name.encode(), b"value") for name in names * 2]

    def look() -> None:
        for _ in range(1_000):
            assert asks_to_rest(status, headers) is None

    def write_small() -> None:
        for _ in range(1_000):
            [name.lower() for name, _value in headers]

    assert times_as_long(look, write_small, 4) < 4
