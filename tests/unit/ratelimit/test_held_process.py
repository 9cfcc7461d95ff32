"""Who shares runs in a process: all callers at a site, where Python runs one thread at a time."""

import sys

import pytest

from weir.ratelimit.held import process
from weir.ratelimit.held.process import callers_at


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a process that knows no site, and restore it afterwards."""
    monkeypatch.setattr(process, "_process", process._Process())


def test_the_callers_at_a_site_are_together() -> None:
    """Whichever way its name is written; one who wants to be alone is."""
    assert callers_at("site.example") is callers_at("SITE.example")
    assert callers_at("site.example") is not callers_at("other.example")
    assert callers_at("site.example") is not callers_at("site.example", shared=False)


def test_on_a_free_threaded_python_each_caller_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may lose its processor between its mark and its body, and others go on."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert callers_at("site.example") is not callers_at("site.example")


def test_the_site_that_was_asked_for_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy site is remembered, however many others there are."""
    monkeypatch.setattr(process, "MOST_SITES", 2)
    busy, idle = callers_at("busy.example"), callers_at("idle.example")
    assert callers_at("busy.example") is busy
    callers_at("third.example")
    assert callers_at("busy.example") is busy
    assert callers_at("idle.example") is not idle
