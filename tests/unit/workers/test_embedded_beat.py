"""Beat in a worker: it begins again where it ended by an error, and ends with its worker."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from structlog.testing import capture_logs

from tests.waiting import wait_for
from weir.workers.beat import embedded

WITHIN_S = 10.0


def test_it_begins_again_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL may be away when the worker starts, and whatever else fails later: the worker cannot know."""
    monkeypatch.setattr(embedded, "BEGINS_AGAIN_S", 0.0)
    is_told, begun = threading.Event(), []

    class Service:
        def __init__(self, _app: Any, **_options: Any) -> None:
            begun.append(self)

        def start(self) -> None:
            if len(begun) < 3:
                raise OperationalError("the database system is starting up")
            assert is_told.wait(WITHIN_S)

        def stop(self) -> None:
            is_told.set()

    monkeypatch.setattr("celery.beat.Service", Service)
    beat = embedded.Beat("weir@here", SimpleNamespace(set_current=lambda: None))
    with capture_logs() as logs:
        beat.start()
        wait_for(lambda: len(begun) == 3, WITHIN_S, "the third beginning")
        beat.stop()
    assert not beat.is_alive()
    assert [log["event"] for log in logs] == ["beat_begins_again"] * 2
