"""Wait for conditions, and tell what came too late from what was wrong.

Starts have graces of some milliseconds, and conditions have time-outs. A machine that stands still for longer, as those
of CI do, makes a test wait in vain though nothing is wrong. Such a test is run once more; what is too late twice fails,
or is put off until nothing runs beside it (tests/put_off.py).
A broken promise (a request too early, an e-mail twice, a wrong number) is no matter of time, and is never tried again.
Nor is what has not happened in a minute or more: machines stand still for seconds.
"""

import time
from collections.abc import Callable

import pytest
from pytest_rerunfailures import StatusDB  # type: ignore[import-untyped]  # it ships none

LONG_S = 60.0


class TooLateError(pytest.fail.Exception):  # type: ignore[misc,name-defined]  # pytest has no type for it
    """What a test waited for did not happen in time. No `except Exception` below the test hides it."""


def wait_for(condition: Callable[[], object], seconds: float, what: str, *, every_s: float = 0.05) -> None:
    """Return as soon as the condition is true; fail after `seconds`, with `what` in the message.

    Raises TooLateError where that is less than a minute.
    """
    if not comes_true(condition, seconds, every_s=every_s):
        message = f"Waited {seconds:g} s in vain for {what}."
        raise TooLateError(message) if seconds < LONG_S else AssertionError(message)


def comes_true(condition: Callable[[], object], seconds: float, *, every_s: float = 0.05) -> bool:
    """Wait until the condition is true, for `seconds` at most; return whether it is.

    For what is promised, as that numbers become right: with `assert`, a test that saw it broken is not run once more.
    """
    give_up_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(every_s)
    return True


def in_time(condition: object, what: str) -> None:
    """State that something happened soon enough. Raises TooLateError where it did not."""
    if not condition:
        raise TooLateError(what)


def once_more_if_too_late(item: pytest.Item) -> None:
    """Have a test that was too late run once more."""
    item.add_marker(pytest.mark.flaky(reruns=1, condition=is_too_late))


def count_reruns_here(config: pytest.Config) -> None:
    """Have a process that runs tests for another count by itself how often each was run; called by `pytest_configure`.

    pytest-rerunfailures has it ask the other one before each test, over TCP, and what it tells it next is acknowledged
    after 40 ms only: all tests would wait for that. It would know, too, which ended a process. That one fails.
    """
    if hasattr(config, "workerinput"):
        config.failures_db = StatusDB()  # type: ignore[attr-defined]  # its plugin's own


def is_too_late(error: BaseException | None) -> bool:
    """Tell whether a test failed only as something took longer than it waits."""
    return isinstance(error, TooLateError)
