"""What a log line may hold: of a URL its host, of any value 1,000 characters."""

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
import structlog

from project.logs import formats
from tests.proportion import times_as_long
from weir.logs import masking
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.jobs import Answer, FetchOutcome

LOGGERS = "workers.masking", "celery.masking", "psycopg.pool", "psycopg"  # of structlog, another, and of a driver
CANARY = "CaNaRy"
HOST = "host.example"

# Where a URL may hold what is secret.
URLS = (
    f"https://{HOST}/{CANARY}",
    f"https://{HOST}/a/{CANARY}/b",
    f"https://{HOST}?{CANARY}",
    f"https://{HOST}/?token={CANARY}",
    f"https://{HOST}/#{CANARY}",
    f"https://{HOST}:8443/a?b=c&token={CANARY}#d",
    f"https://kim:{CANARY}@{HOST}/",
    f"https://{CANARY}@{HOST}",
    f"https://{CANARY}:@{HOST}:8443",
    f"https://kim@{CANARY}@{HOST}/",
    f"HTTP://[::1]:80/{CANARY}",
    f"https://{HOST}\\{CANARY}",
    f"https://{HOST}/'{CANARY}",
    f'https://{HOST}/"{CANARY}"',
    f"https://{HOST}/<{CANARY}>({CANARY})[{CANARY}]",
    f"https://{HOST}/\xa0{CANARY}\u2028{CANARY}",
    f"https://h\xf6st.example/{CANARY}",
    f"https://{HOST}:99999999/{CANARY}",
    f"https://{HOST}:{CANARY}/",
    f"https://{HOST}/login?next=https%3A%2F%2Fkim%3A{CANARY}%40other.example%2F",
    f"/proxy/https%3a%2f%2fother.example%2f{CANARY}",
    f"//kim:{CANARY}@{HOST}/x",
    f"/reset?token={CANARY}",
    f"/reset?{CANARY}",
    f"/res\xe9?{CANARY}",
    f"?code={CANARY}",
    f"shopapp://callback?code={CANARY}",
    f"shopapp:///{CANARY}",
    f"redis://:{CANARY}@{HOST}:6379/0",
    f"x://y/http://{HOST}/{CANARY}",
    f"https://{HOST}/{'a' * 60_000}{CANARY}",
)
TEXTS = ("{}", "'{}'", '"{}"', "({})", "<{}>", "redirected to {!r}: it is refused", "url={}, see {}", "x{}")


class Odd:
    """What no renderer knows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"<Odd {self._text}>"


def fail(text: str) -> None:
    raise ValueError(text)


def fail_twice(text: str) -> None:
    try:
        fail(text)
    except ValueError as error:
        raise RuntimeError(f"it failed\n{text}") from error


def log_failure(log: Any, text: str, do: Callable[[str], None] = fail_twice) -> None:
    try:
        do(text)
    except (RuntimeError, ValueError):
        log.exception("failed")


CARRIERS: dict[str, Callable[[Any, logging.Logger, str], object]] = {
    "a value": lambda ours, _, text: ours.warning("it_failed", error=text),
    "the event": lambda ours, _, text: ours.warning(text),
    "a positional argument": lambda ours, _, text: ours.warning("it failed: %s", text),
    "another logger's message": lambda _, other, text: other.warning("%s failed", text),
    "another logger's arguments": lambda _, other, text: other.error("Task failed: %(args)s", {"args": (text, [text])}),
    "a list": lambda ours, _, text: ours.warning("it_failed", urls=[text, (text,), {text}]),
    "a dictionary": lambda ours, _, text: ours.warning("it_failed", headers={text: {"Location": text}}),
    "deep in lists": lambda ours, _, text: ours.warning("it_failed", deep=[[[[[[[text]]]]]]]),
    "bytes": lambda ours, _, text: ours.warning("it_failed", raw=text.encode(), rest=bytearray(text.encode())),
    "an object": lambda ours, _, text: ours.warning("it_failed", error=ValueError(text), job=Odd(text)),
    "a traceback": lambda _, other, text: log_failure(other, text),
    "a request": lambda ours, _, text: ours.info("request_finished", request=f"GET {text}"),
    "a stack": lambda ours, _, text: ours.warning("it_failed", stack=text),
}


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[StringIO]:
    """Write log lines as a process does; returns where."""
    before = structlog.get_config()
    made = formats.configure(request.param, "INFO")["formatters"]["structured"]
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(made.pop("()")(**made))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    yield written
    for name in LOGGERS:
        logging.getLogger(name).handlers.clear()
    structlog.configure(**before)


@pytest.mark.parametrize("lines", ["json", "text"], indirect=True)
def test_no_line_has_what_a_url_may_hold(lines: StringIO) -> None:
    """However the URL came there, and whatever stands around it."""
    ours, other = structlog.get_logger(LOGGERS[0]), logging.getLogger(LOGGERS[1])
    for (what, log), url, text in itertools.product(CARRIERS.items(), URLS, TEXTS):
        lines.seek(0)
        lines.truncate()
        log(ours, other, text.format(url, url))
        written = lines.getvalue()
        assert written, what
        assert CANARY not in written, (what, url[:100], text)


@pytest.mark.parametrize("lines", ["json"], indirect=True)
def test_a_line_still_says_what_happened(lines: StringIO) -> None:
    """Hosts, paths of requests and sentences stay; what is no text is as it was."""
    said = {
        "http://host.example:81/ is it": "http://host.example:81/ is it",
        "to 'https://host.example': refused": "to 'https://host.example': refused",
        "https://kim:pw@host.example:8443/a?b": "https://host.example:8443/***",
        "http://[2001:db8::1]:80/x": "http://[2001:db8::1]:80/***",
        "Error 111 connecting to cache:6379.": "Error 111 connecting to cache:6379.",
        "why? who knows?": "why? who knows?",
        "a/b//c 5 % of a@b": "a/b//c 5 % of a@b",
        "DETAIL:  Failing row contains (1, kim, ...).": "DETAIL:  Failing row contains (***",
    }
    ours = structlog.get_logger(LOGGERS[0])
    for text, expected in said.items():
        ours.warning("it_failed", error=text, count=3, share=0.5, sites=["a", None, True])
        written = json.loads(lines.getvalue().splitlines()[-1])
        assert written["error"] == expected
        assert [written["count"], written["share"], written["sites"]] == [3, 0.5, ["a", None, True]]
    requests = {
        "GET /api/v1/fetches?url=https%3A%2F%2Fhost.example%2F&state=failed": "GET /api/v1/fetches?***",
        "GET /api/v1/emails?to=kim@example.com": "GET /api/v1/emails?***",
        "GET /api/v1/users/kim@example.com/notifications": "GET /api/v1/users/***/notifications",
        "GET /api/v1/users/kim%40example.com/notifications": "GET /api/v1/users/***/notifications",
        "POST /fetches/12/": "POST /fetches/12/",
    }
    for text, expected in requests.items():
        ours.info("request_finished", request=text)
        assert json.loads(lines.getvalue().splitlines()[-1])["request"] == expected


@pytest.mark.parametrize("lines", ["json"], indirect=True)
def test_values_are_cut(lines: StringIO) -> None:
    """Each to 1,000 characters, and a traceback by its lines; its beginning and its end are left."""
    ours = structlog.get_logger(LOGGERS[0])
    long = "x" * 60_000
    ours.warning(long, error=long, rest=[long] * 100, deep={long: long}, odd=Odd(long), raw=long.encode())
    log_failure(ours, "\n".join(["begins", *[long] * 100, "ends"]), fail)
    values, failed = map(json.loads, lines.getvalue().splitlines())
    assert {name for name, value in values.items() if len(str(value)) > masking.MOST} == set()
    assert max(map(len, failed["exception"].splitlines())) <= masking.MOST
    assert len(failed["exception"]) < 2 * masking.MOST_OF_TRACEBACK
    assert failed["exception"].startswith("Traceback")
    assert failed["exception"].endswith("ends")


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://weir:s3cret@db.example/orders")
    monkeypatch.setenv("REDIS_URL", "redis://:swordfish@cache.example/0")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:2026@cache.example/0")
    monkeypatch.setenv("EMAIL_HOST_PASSWORD", "long secret#2")
    monkeypatch.setenv("DJANGO_SECRET_KEY", f"{datetime.now(UTC):%Y-%m}")


@pytest.mark.usefixtures("passwords")
@pytest.mark.parametrize("lines", ["json", "text"], indirect=True)
def test_a_password_that_a_server_repeats_is_in_no_line(lines: StringIO) -> None:
    """However it came there."""
    ours, other = structlog.get_logger(LOGGERS[0]), logging.getLogger(LOGGERS[1])
    for (what, log), text in itertools.product(CARRIERS.items(), ["FATAL: I dislike {}", "'{}'", "{}"]):
        log(ours, other, text.format("s3cret"))
        log(ours, other, text.format("long secret#2"))
        assert "s3cret" not in lines.getvalue(), what
        assert "secret#2" not in lines.getvalue(), what


@pytest.mark.usefixtures("passwords")
@pytest.mark.parametrize("lines", ["json"], indirect=True)
def test_a_password_that_is_a_word_is_in_no_line_of_a_driver(lines: StringIO) -> None:
    """Lines of all others have such words by accident, and would tell by a mask what the password is."""
    for logger in LOGGERS[1:]:
        logging.getLogger(logger).warning("FATAL: I dislike %s, %s", "swordfish", "2026")
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["event"] for line in written] == [
        "FATAL: I dislike swordfish, 2026",
        *["FATAL: I dislike ***, ***"] * 2,
    ]
    assert [line for line in written if "***" in line["timestamp"]] == []  # whatever a password is


def test_no_text_takes_long() -> None:
    """A site chooses many of them. No more is read than of ten usual ones of the length that is kept."""
    usual = ("GET https://host.example/a/b?c=d answered 200, " * masking.MOST)[: masking.MOST]

    def mask_usual() -> None:
        for _ in range(masking.READ // masking.MOST):
            masking.masked(usual)

    for part in (
        "://",
        "a://",
        "://a@",
        "//a",
        "?a",
        "?a=",
        "%3a%2f%2f",
        "@",
        "/",
        "x",
        "://[",
        ":1",
        "a?",
        "Failing row",
    ):
        text = part * 100_000
        assert times_as_long(lambda: masking.masked(text), mask_usual, 4) < 4, part  # noqa: B023  called at once


def outcomes(location: str) -> Iterator[FetchOutcome]:
    """Yield what becomes of answers that redirect there, the first and the last time."""
    from tests.unit.fetcher.test_outcomes import job  # noqa: PLC0415  whose table is about all else

    for redirects in (0, 10):
        answer = Answer(
            job=job(redirects=redirects),
            status_code=302,
            headers=((b"Location", location.encode()),),
            body=b"",
            lateness_ms=1.0,
            elapsed_ms=1.0,
        )
        yield judge(answer, max_body=100, chance=0.5)


def test_errors_about_redirects_have_a_form_for_logs() -> None:
    """Whatever the Location is: the fetch says it, and a log does not."""
    refused = 0
    for url in (
        *URLS,
        f"javascript:'{CANARY}'",
        f"http://kim:{CANARY}@h\u2100st/",
        f"https://{CANARY}:x@h/",
        "http://[x",
    ):
        for outcome in outcomes(url):
            if outcome.error:
                refused += 1
                assert outcome.log_error
                assert CANARY not in outcome.log_error, url[:100]
    assert refused > len(URLS)
