"""A child of a worker does not wait for half a minute to be heard by a worker that reads no more."""

import time
from typing import Any

from billiard import pool

from project.silent_broker import HEARD_WITHIN_S, leave_when_silent


class Counter:
    """What the worker has read of a child: nothing."""

    value = 0


def test_a_child_that_is_not_heard_ends_soon() -> None:
    """Its worker could not acknowledge another child's task, and reads no more."""
    leave_when_silent()
    child: Any = object.__new__(pool.Worker)
    child.on_ready_counter = Counter()
    began_at = time.monotonic()
    assert child._ensure_messages_consumed(1) is False
    assert time.monotonic() - began_at < HEARD_WITHIN_S + 5
