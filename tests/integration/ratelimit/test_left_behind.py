"""What a caller of throttle() leaves behind that is torn out of it: by a fork."""

import os
import signal
from collections.abc import Callable

import pytest
from django.db import connections

from ratelimit import round_trips, site_settings
from ratelimit.held import process
from ratelimit.throttle import throttle

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
HANGS_AFTER_S = 10


@pytest.fixture(autouse=True)
def site_at() -> None:
    """Have a fast site."""
    site_settings.set_rate(SITE, "100/s")


def exit_code_of_child(call: Callable[[], None]) -> int:
    """Return how a child ends that is forked here, and calls this; it is killed if it hangs."""
    child = os.fork()
    if not child:  # pragma: no cover  another process
        signal.alarm(HANGS_AFTER_S)
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_that_is_forked_while_another_thread_measures_does_not_hang() -> None:
    """The lock of what is measured is not taken into the child as it was."""

    def use() -> None:
        with throttle(SITE):
            pass
        process.close()

    connections.close_all()
    with round_trips.of_process._lock:
        assert exit_code_of_child(use) == 0
