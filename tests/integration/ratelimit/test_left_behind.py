"""What a caller of throttle() leaves behind if it is interrupted by a fork, or by the end of its task's loop."""

import asyncio
import os
import signal
from collections.abc import Callable

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from tests.integration.conftest import Eventually, WaitersOf
from tests.set_up import needs_own_sessions
from weir.ratelimit import round_trips, site_settings
from weir.ratelimit.held import process
from weir.ratelimit.models import Slot
from weir.ratelimit.throttle import athrottle, throttle

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
HANGS_AFTER_S = 10


@pytest.fixture(autouse=True)
def site_at() -> None:
    """Create a fast site."""
    site_settings.set_rate(SITE, "100/s")


def unsettled() -> int:
    """Return how many slots are neither used nor given back."""
    return Slot.objects.filter(finished_at=None, released_at=None).count()


def exit_code_of_child(call: Callable[[], None]) -> int:
    """Return the exit code of a child that is forked here and calls this; it is killed if it hangs."""
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


@needs_own_sessions
def test_a_child_that_is_forked_while_another_thread_measures_does_not_hang() -> None:
    """The child does not inherit the lock of the measurements while it is held."""

    def use() -> None:
        with throttle(SITE):
            pass
        process.close()

    connections.close_all()
    with round_trips.of_process._lock:
        assert exit_code_of_child(use) == 0


@needs_own_sessions
def test_a_child_that_is_forked_in_a_body_leaves_the_slot_to_its_parent() -> None:
    """It has the parent's connection to the database, which it must not use."""
    left = throttle(SITE)
    with left:
        assert exit_code_of_child(lambda: left.__exit__(None, None, None)) == 0
        assert unsettled() == 1
    assert unsettled() == 0


def test_what_is_reserved_for_a_task_whose_loop_was_closed_is_given_back(
    other_connection: psycopg.Connection[object], waiters: WaitersOf, eventually: Eventually
) -> None:
    """Ctrl-C, say, while the statement waits for another transaction: no caller is left for what it reserves."""
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")

    async def use() -> None:
        async with athrottle(SITE):
            pytest.fail("It started though its loop was closed.")

    async def main() -> None:
        waiting = asyncio.create_task(use())
        await asyncio.to_thread(eventually, lambda: waiters(other_connection), "the reservation to wait")
        assert not waiting.done()

    asyncio.run(main())
    other_connection.rollback()
    eventually(lambda: Slot.objects.exists() and not unsettled(), "the slot to be given back")
    asyncio.run(sync_to_async(connections.close_all)())
