"""How many seconds apart a robots.txt asks for: numbers as people write them, and never faster than they say."""

from hypothesis import given
from hypothesis import strategies as st

from weir.workers.fetches.robots.delays import LONGEST_CRAWL_DELAY_S, seconds_between

ARABIC_ONE = "\N{ARABIC-INDIC DIGIT ONE}"


def test_a_crawl_delay_is_a_number_with_or_without_a_unit() -> None:
    """A comma is a decimal point. What has no number in front, in ASCII digits, says nothing."""
    for value, seconds in {
        "10": 10, "0.5": 0.5, ".5": 0.5, "5.": 5, "1,5": 1.5, "10s": 10, "10 s": 10, "10 sec.": 10, "10 seconds": 10,
        "10S": 10, "5m": 300, "5 min": 300,
        "1h": 3_600, "1 hour": 3_600, "1d": 86_400, "500ms": 0.5, "500 milliseconds": 0.5,
        "10;": 10, "10-20": 10, "10 20": 10, "1e1": 10, "007": 7, "10 parsecs": 10,
        "86400": 86_400, "86401": LONGEST_CRAWL_DELAY_S, "1e300": LONGEST_CRAWL_DELAY_S, "1e999": LONGEST_CRAWL_DELAY_S,
        "9" * 500: LONGEST_CRAWL_DELAY_S,
        "0": None, "0.0": None, "0s": None, "": None, "-1": None, "nan": None, "inf": None, "ten": None, "s": None,
        ".": None, "1_000": None, f"{ARABIC_ONE}0": None, "\N{FULLWIDTH DIGIT ONE}": None, "²": None,
        "+5": None, "1e-999": None,
    }.items():  # fmt: skip
        assert seconds_between("Crawl-delay", value) == seconds, value


def test_a_request_rate_is_a_delay_between_two_requests() -> None:
    """So many requests in so much time; that it is said of some hours only makes it none the faster."""
    for value, seconds in {
        "1/10": 10, "1/10s": 10, "1 / 10 s": 10, "100/15m": 9, "400/1h": 9, "9000/1d": 9.6, "90/180": 2,
        "1/5 0600-0845": 5, "1/10s 1820-1940": 10, "1/9999d": LONGEST_CRAWL_DELAY_S, "1/1,5": 1.5,
        "0/10": None, "10": None, "1/": None, "/1": None, "1/x": None, "1/0": None, "1_0/10": None,
        f"{ARABIC_ONE}/10": None,
    }.items():  # fmt: skip
        assert seconds_between("Request-rate", value) == seconds, value


@given(
    key=st.sampled_from(["Crawl-delay", "request rate"]),
    value=st.text("0123456789.,eE+-/_ smhd\t" + ARABIC_ONE, max_size=120),
)
def test_a_delay_is_a_time_of_at_most_a_day(key: str, value: str) -> None:
    assert 0 < (seconds_between(key, value) or 1) <= LONGEST_CRAWL_DELAY_S
