"""Wait for conditions, and tell what came too late from what was wrong.

Starts have graces of some milliseconds, and conditions have time-outs. A machine that stands still for longer, as those
of CI do, makes a test wait in vain though nothing is wrong. Such a test is run once more; a test that is too late twice
fails, or is put off until nothing runs beside it (tests/put_off.py).
A broken promise (a request too early, an e-mail twice, a wrong number) is not a matter of time: such a test is not run
again. Nor is one that waited for a minute or more: machines stand still for seconds.
"""

import time
from collections.abc import Callable

import pytest
from pytest_rerunfailures import StatusDB  # type: ignore[import-untyped]  # it ships none

LONG_S = 60.0
SELDOM_S = 0.2


class TooLateError(pytest.fail.Exception):  # type: ignore[misc,name-defined]  # pytest has no type for it
    """What a test waited for did not happen in time. No `except Exception` below the test hides it."""


def wait_for(condition: Callable[[], object], seconds: float, what: str, *, every_s: float = 0.05) -> None:
    """Return as soon as the condition is true; fail after `seconds`, with `what` in the message.

    Raises TooLateError if `seconds` is less than a minute, AssertionError otherwise.
    """
    if not comes_true(condition, seconds, every_s=every_s):
        message = f"Waited {seconds:g} s in vain for {what}."
        raise TooLateError(message) if seconds < LONG_S else AssertionError(message)


def comes_true(condition: Callable[[], object], seconds: float, *, every_s: float = 0.05) -> bool:
    """Wait until the condition is true, for `seconds` at most; return whether it is.

    It is asked every `every_s` seconds at first, and less often the longer it has been false: to ask takes the
    processors from what the test waits for.
    For promises, such as that numbers become right: with `assert`, a test that saw a promise broken is not run again.
    """
    began_at = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_at
        if waited_s > seconds:
            return False
        time.sleep(max(every_s, min(waited_s / 20, SELDOM_S, seconds - waited_s)))
    return True


def in_time(condition: object, what: str) -> None:
    """Assert that something happened soon enough. Raises TooLateError if it did not."""
    if not condition:
        raise TooLateError(what)


def once_more_if_too_late(item: pytest.Item) -> None:
    """Mark the test to be run once more if it was too late."""
    item.add_marker(pytest.mark.flaky(reruns=1, condition=is_too_late))


def count_reruns_here(config: pytest.Config) -> None:
    """Let a process that runs tests for another one count how often each was run; called by `pytest_configure`.

    By pytest-rerunfailures it would ask the other process before each test, over TCP, and what it says next would be
    acknowledged only after 40 ms: all tests would wait for that. The other process would also know which test ended a
    process; without it, that test fails.
    """
    if hasattr(config, "workerinput"):
        config.failures_db = StatusDB()  # type: ignore[attr-defined]  # its plugin's own


def is_too_late(error: BaseException | None) -> bool:
    """Return whether a test failed only because something took longer than it waits."""
    return isinstance(error, TooLateError)
