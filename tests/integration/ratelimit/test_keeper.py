"""The keeper of a process: slots are recorded and given back, even after an outage, and if the keeper cannot work."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections
from structlog.testing import capture_logs

from tests.integration.conftest import Eventually
from weir.ratelimit import site_settings, slots
from weir.ratelimit.held import process
from weir.ratelimit.models import Slot
from weir.ratelimit.throttle import throttle

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"


@pytest.fixture(autouse=True)
def site_at() -> None:
    """Create a site at which the callers of a process share runs, of two seconds at most."""
    site_settings.set_rate(SITE, "20/s", grace=timedelta(seconds=1))


def use(count: int) -> None:
    for _ in range(count):
        with throttle(SITE):
            pass


def failing(real: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return a function that fails `times` times, as if the database could not be reached."""
    left = [times]

    def call(*given: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OperationalError("The database is away.")
        return real(*given, **named)

    return call


def all_are_noted(used: int) -> bool:
    """Return whether `used` slots are recorded as used, and all others as given back."""
    return (
        Slot.objects.exclude(finished_at=None).count() == used
        and not Slot.objects.filter(finished_at=None, released_at=None).exists()
    )


@pytest.mark.parametrize("statement", ["finish", "hand_back"])
def test_what_an_outage_kept_from_the_database_is_written_later(
    statement: str, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Used slots and free slots are not lost with the first error."""
    use(1)  # is recorded without a keeper
    monkeypatch.setattr(slots, statement, failing(getattr(slots, statement), 2))
    with capture_logs() as logs:
        use(5)
        eventually(lambda: all_are_noted(6), "all slots to be noted")
    assert [log["event"] for log in logs] == ["held_runs_wait_for_database"] * 2


def test_a_thread_that_cannot_be_started_is_started_later(
    monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Meanwhile callers handle their own slots, and the next run is kept."""

    def full(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(threading.Thread, "start", full)
        use(3)
    assert {log["event"] for log in logs} == {"keeper_not_started"}
    assert Slot.objects.exclude(finished_at=None).count() == 3
    process.forget()
    use(7)
    eventually(lambda: Slot.objects.exclude(finished_at=None).count() == 10, "the slots to be noted by a keeper")


def test_a_process_that_ends_waits_for_its_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that the keeper is just giving back are given back when the process has ended."""
    may_go_on, is_at_it = threading.Event(), threading.Event()
    real = slots.hand_back

    def close() -> None:
        process.close()
        connections.close_all()

    def slow(*given: Any) -> None:
        is_at_it.set()
        may_go_on.wait(10)
        real(*given)

    use(6)
    monkeypatch.setattr(slots, "hand_back", slow)
    assert is_at_it.wait(10)
    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    may_go_on.set()
    closing.join(10)
    assert all_are_noted(6)
