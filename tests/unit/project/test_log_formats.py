"""How a log line looks: JSON for machines; short text for people, in colours if they want them."""

import json
import logging
import logging.config
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from django.urls import reverse

from project.logs import formats
from tests.cases import for_each


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def line(form: formats.Format, level: int = logging.WARNING, event: str = "site_backed_off", **fields: Any) -> str:
    """Return the line about an event, as a process writes it."""
    made = formats.configure(form, "INFO")["formatters"]["structured"]
    formatter = made.pop("()")(**made)
    record = logging.LogRecord("weir.ratelimit.slots", level, __file__, 1, event, None, None)
    for name, value in fields.items():
        setattr(record, name, value)
    return str(formatter.format(record))


@for_each(
    ("wanted", "debug", "form"),
    [
        ("", False, "json"),
        ("", True, "text"),
        ("json", True, "json"),
        ("text", False, "text"),
        ("colour", False, "colour"),
    ],
)
def test_the_variable_decides_and_debug_only_without_it(wanted: str, debug: bool, form: str) -> None:
    """WEIR_LOG_FORMAT, and DJANGO_DEBUG."""
    assert formats.chosen(wanted, debug=debug) == form


def test_json_has_all_fields() -> None:
    """With the time in full, for machines."""
    found = json.loads(line("json"))
    assert (found["event"], found["level"], found["logger"]) == ("site_backed_off", "warning", "weir.ratelimit.slots")
    assert found["timestamp"].endswith("Z")


def test_text_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day, no padding, no colours."""
    monkeypatch.delenv("HONCHO_PROCESS_NAME", raising=False)
    time, _, rest = line("text").partition(" ")
    assert len(time) == len("13:02:11")
    assert rest == "[warning] site_backed_off [weir.ratelimit.slots]"


def test_text_has_no_time_where_honcho_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each line, with the process' name."""
    monkeypatch.setenv("HONCHO_PROCESS_NAME", "fetcher.1")
    assert line("text") == "[warning] site_backed_off [weir.ratelimit.slots]"


def test_colours_are_a_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where they are asked for."""
    monkeypatch.setenv("HONCHO_PROCESS_NAME", "fetcher.1")
    assert "\x1b[" in line("colour")


@for_each("form", ["json", "text", "colour"])
def test_a_traceback_shows_no_local_variables(form: formats.Format) -> None:
    """They may be passwords."""
    password = "s3cr" + "et"
    try:
        int(password.replace("s3cr", "x"))
    except ValueError:
        shown = line(form, exc_info=sys.exc_info())
    assert "ValueError" in shown
    assert password not in shown


def logged(form: formats.Format, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return which of some events about requests are written."""
    formats.configure(form, "INFO")
    caplog.set_level(logging.INFO)
    requests = structlog.get_logger(formats.REQUESTS)
    requests.info("request_started", request="GET /refresh")
    requests.info("request_finished", request="GET /refresh")
    requests.info("request_finished", request="GET /healthz")
    requests.error("request_finished", request="GET /livez")
    structlog.get_logger("workers").warning("without_contact")
    structlog.get_logger("workers").warning("request_started")
    events: list[Any] = [record.msg for record in caplog.records]
    return [f"{event['event']} {event.get('request', '')}" for event in events]


def test_people_need_not_read_routine(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is one line, a health check that succeeds is none, and what `up` has told is not told again."""
    monkeypatch.setenv(formats.TOLD, "without_contact")
    of_people = ["request_finished GET /refresh", "request_finished GET /livez", "request_started "]
    assert logged("text", caplog) == of_people
    caplog.clear()
    assert len(logged("json", caplog)) == 6


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_line_tells_what_signs_in(form: formats.Format, caplog: pytest.LogCaptureFixture) -> None:
    """Neither that of Django, nor that of the middleware: the link may be good still when it is logged."""
    path = reverse("sign-in-by-link", args=["s3cr-et_"])
    assert "Forbidden: /sign-in/with/***/" in line(form, event=f"Forbidden: {path}")
    formats.configure(form, "INFO")
    caplog.set_level(logging.INFO)
    structlog.get_logger("asked").info("request_finished", request=f"HEAD {path}")
    events: list[Any] = [record.msg for record in caplog.records]
    assert [event["request"] for event in events] == ["HEAD /sign-in/with/***/"]
