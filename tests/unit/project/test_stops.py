"""A child of a worker does not wait for half a minute to be heard by a worker that reads no more."""

from types import SimpleNamespace
from typing import Any

import pytest
from billiard import pool

from project.silent_broker import leave_when_silent

GRACE_S = 20.0  # of a worker, which has more to do


class Counter:
    """What the worker has read of a child: nothing."""

    value = 0


def test_a_child_that_is_not_heard_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker could not acknowledge another child's task, and reads no more."""
    leave_when_silent()
    waits_s: list[float] = []
    monkeypatch.setattr(pool, "time", SimpleNamespace(sleep=waits_s.append))
    child: Any = object.__new__(pool.Worker)
    child.on_ready_counter = Counter()
    assert child._ensure_messages_consumed(1) is False
    assert 0 < sum(waits_s) < GRACE_S / 2
