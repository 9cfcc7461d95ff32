"""Beat in a worker: it begins again where it ended by an error, and ends with its worker."""

import math
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.test import override_settings
from structlog.testing import capture_logs

from tests.waiting import wait_for
from weir.workers.beat import embedded
from weir.workers.processes import ending

WITHIN_S = 10.0
APP = SimpleNamespace(set_current=lambda: None)
OPTIONS = {"schedule_filename": "schedule", "scheduler_cls": "another"}


def test_it_begins_again_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL may be away when the worker starts, and whatever else fails later: the worker cannot know."""
    monkeypatch.setattr(embedded, "BEGINS_AGAIN_S", 0.0)
    is_told, begun = threading.Event(), []

    class Service:
        remote_control = True

        # As up to Celery 5.6.
        def __init__(self, _app: Any, *, schedule_filename: str, scheduler_cls: Any) -> None:  # noqa: ARG002
            begun.append(self)

        def start(self) -> None:
            assert not self.remote_control
            if len(begun) < 3:
                raise OperationalError("the database system is starting up")
            assert is_told.wait(WITHIN_S)

        def stop(self) -> None:
            is_told.set()

    monkeypatch.setattr("celery.beat.Service", Service)
    beat = embedded.Beat("weir@here", APP, **OPTIONS)
    with capture_logs() as logs:
        beat.start()
        wait_for(lambda: len(begun) == 3, WITHIN_S, "the third beginning")
        beat.stop()
    assert not beat.is_alive()
    assert [log["event"] for log in logs] == ["beat_begins_again"] * 2


def test_one_that_is_stopped_while_it_begins_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is asked to end at once: beat would keep its lease, which nobody could take."""
    begins, may_go_on, started = threading.Event(), threading.Event(), []

    class Service:
        def __init__(self, _app: Any, **_options: Any) -> None:
            begins.set()
            assert may_go_on.wait(WITHIN_S)

        def start(self) -> None:
            started.append(self)

    monkeypatch.setattr("celery.beat.Service", Service)
    monkeypatch.setattr(embedded, "STOPS_WITHIN_S", 0.0)
    beat = embedded.Beat("weir@here", APP, **OPTIONS)
    beat.start()
    assert begins.wait(WITHIN_S)
    beat.stop()
    may_go_on.set()
    beat.join(WITHIN_S)
    assert not beat.is_alive()
    assert not started


def test_one_that_hangs_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the process hangs then, and would do so for good, without a word."""
    may_go_on, ended = threading.Event(), threading.Event()

    class Service:
        def __init__(self, _app: Any, **_options: Any) -> None:
            pass

        def start(self) -> None:
            assert may_go_on.wait(WITHIN_S)

        def stop(self) -> None:
            may_go_on.set()

    def end(_event: str, **_said: str) -> None:
        ended.set()

    monkeypatch.setattr("celery.beat.Service", Service)
    monkeypatch.setattr(ending, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(ending, "SPARE_S", 0.0)
    monkeypatch.setattr(ending, "end_process", end)
    beat = embedded.Beat("weir@here", APP, **OPTIONS)
    with override_settings(WEIR_STATEMENT_TIMEOUT=0.001):
        beat.start()
        assert ended.wait(WITHIN_S)
    beat.stop()
    assert not beat.is_alive()


def test_one_that_is_refused_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a beat that is a process ends: nothing would tick, and nobody would know."""
    ended: list[str] = []

    class Service:
        def __init__(self, _app: Any, **_options: Any) -> None:
            raise SystemExit("There is no such schedule.")

    def end(_event: str, reason: str) -> None:
        ended.append(reason)
        beat._is_to_stop.set()

    monkeypatch.setattr("celery.beat.Service", Service)
    monkeypatch.setattr(ending, "end_process", end)
    beat = embedded.Beat("weir@here", APP, **OPTIONS)
    beat.start()
    beat.join(WITHIN_S)
    assert ended == ["There is no such schedule."]


@override_settings(WEIR_STATEMENT_TIMEOUT=0.0)
def test_one_whose_statements_have_no_end_may_take_any_time() -> None:
    assert embedded.patience_s() == math.inf
