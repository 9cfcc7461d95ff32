"""The clock of those who hold slots, and who reads it."""

import time
from pathlib import Path

import pytest

from ratelimit import clock

CHECKOUT = Path(clock.__file__).parents[1]
HOLDERS = (
    "ratelimit/slots.py",
    "ratelimit/throttle.py",
    "ratelimit/held/caller.py",
    "ratelimit/held/held_run.py",
    "ratelimit/held/site_callers.py",
    "workers/throttled/postponing.py",
    "workers/fetches/fetcher/claim.py",
    "workers/fetches/fetcher/http/attempt.py",
    "workers/fetches/fetcher/recall_watcher.py",
    "workers/fetches/fetcher/http/session.py",
    "workers/fetches/robots/files.py",
    "workers/fetches/robots/gate.py",
)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="elsewhere the monotonic clock goes on")
def test_it_goes_on_while_the_host_is_suspended() -> None:
    """Linux has another clock for that: tests/integration/ratelimit/test_suspended.py runs where the two differ."""
    assert clock.now() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1.0)


@pytest.mark.parametrize("module", HOLDERS)
def test_who_holds_slots_reads_no_other_clock(module: str) -> None:
    """Two clocks in one comparison would agree in all tests, and differ by hours on a host that was suspended."""
    assert "monotonic(" not in (CHECKOUT / module).read_text()
