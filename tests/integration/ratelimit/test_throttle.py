"""throttle() and athrottle(): code of any kind starts in its site's slot, and leaves the slot in order."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import chain, pairwise
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection, connections, transaction
from django.db.transaction import TransactionManagementError
from structlog.testing import capture_logs

from tests.integration.conftest import Eventually, InThreads, WaitersOf
from tests.waiting import in_time
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Slot
from weir.ratelimit.pacing import Run
from weir.ratelimit.throttle import athrottle, throttle

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
INTERVAL = 0.05
AHEAD = 20  # slots of another holder: a second


class Planned(Exception):
    """What goes wrong in a body, on purpose."""


@pytest.fixture(autouse=True)
def site_at() -> None:
    """Create a site whose grace is longer than the pauses of a busy test machine."""
    site_settings.set_rate(SITE, "20/s", grace=timedelta(milliseconds=80))


def run_async(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine, and close the connection of the thread in which its database calls ran."""

    async def closing() -> Any:
        try:
            return await main()
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(closing())


def use_sync() -> float:
    """Return when the body started."""
    with throttle(SITE):
        return clock.now()


async def use_async() -> float:
    """Return when the body started."""
    async with athrottle(SITE):
        return clock.now()


def use(kind: str) -> float:
    started_at: float = use_sync() if kind == "throttle" else run_async(use_async)
    return started_at


def lose_the_database(other: psycopg.Connection[Any]) -> None:
    """Make the server end this thread's connection, through another one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def states() -> list[str]:
    """Return what became of the slots, in the order of their starts."""
    rows = Slot.objects.order_by("start_time").values_list("finished_at", "released_at")
    return ["finished" if finished else "given back" if released else "open" for finished, released in rows]


both = pytest.mark.parametrize("kind", ["throttle", "athrottle"])


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Let four other threads of this process compute, and make Python switch threads as often as it can."""
    ended, switch_s = threading.Event(), sys.getswitchinterval()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(switch_s)


def test_threads_keep_the_interval_between_them(in_threads: InThreads, eventually: Eventually) -> None:
    """Bodies in several threads start at least an interval apart, and their slots are finished soon."""
    starts = sorted(chain(*in_threads(4, lambda _number: [use_sync() for _ in range(3)])))
    assert len(starts) == 12
    assert min(later - earlier for earlier, later in pairwise(starts)) >= INTERVAL
    eventually(lambda: states().count("finished") == 12 and "open" not in states(), "all slots to be noted")


@pytest.mark.usefixtures("busy_threads")
def test_threads_keep_the_interval_between_them_in_a_busy_process(in_threads: InThreads) -> None:
    """A thread that was let go may lose Python's lock before its body has begun: the others wait for it."""
    site_settings.set_rate(SITE, "100/s", grace=timedelta(milliseconds=80))

    def use() -> float:
        with throttle(SITE):
            return time.monotonic()  # not a Python function: at the beginning of one, Python may switch threads

    starts = sorted(chain(*in_threads(4, lambda _number: [use() for _ in range(40)])))
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 0.01


def test_tasks_of_one_loop_keep_the_interval_between_them(eventually: Eventually) -> None:
    """Bodies in several tasks start at least an interval apart, and their slots are finished soon."""

    async def main() -> list[float]:
        return await asyncio.gather(*(use_async() for _ in range(10)))

    starts = sorted(run_async(main))
    assert min(later - earlier for earlier, later in pairwise(starts)) >= INTERVAL
    eventually(lambda: states().count("finished") == 10 and "open" not in states(), "all slots to be noted")


def test_threads_and_tasks_keep_the_interval_between_them(in_threads: InThreads) -> None:
    """One site paces all its callers, whichever way they use."""

    async def main() -> list[float]:
        return await asyncio.gather(*(use_async() for _ in range(6)))

    groups = in_threads(3, lambda number: run_async(main) if number == 0 else [use_sync() for _ in range(3)])
    starts = sorted(chain(*groups))
    assert len(starts) == 12
    assert min(later - earlier for earlier, later in pairwise(starts)) >= INTERVAL


def test_the_loop_goes_on_while_athrottle_waits() -> None:
    """Waiting for a slot blocks no other task."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        for _ in range(3):
            await use_async()
        ticking.cancel()

    run_async(main)
    assert ticks > 10


@both
def test_the_slot_of_the_body_is_told_and_is_open_in_it(kind: str) -> None:
    """The `with` yields the id of the slot, which is finished when the body ends, not before."""

    async def main() -> tuple[int, list[str]]:
        async with athrottle(SITE) as slot_id:
            return slot_id, await sync_to_async(states)()

    if kind == "throttle":
        with throttle(SITE) as slot_id:
            inside = states()
    else:
        slot_id, inside = run_async(main)
    in_time(inside != ["given back", "open"], "the slot, and another one was reserved")
    assert inside == ["open"]
    assert Slot.objects.get().pk == slot_id
    assert states() == ["finished"]


@both
def test_a_missed_window_is_not_used(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stalled beyond the grace of its slot gives it back and reserves again."""
    slots.reserve(SITE, AHEAD)  # so that it has to wait
    stalls = [0.3]
    real_sleep, real_async_sleep = time.sleep, asyncio.sleep

    def stalled_sleep(seconds: float) -> None:
        real_sleep(seconds + (stalls.pop() if stalls else 0))

    async def stalled_async_sleep(seconds: float) -> None:
        await real_async_sleep(seconds + (stalls.pop() if stalls else 0))

    monkeypatch.setattr(time, "sleep", stalled_sleep)
    monkeypatch.setattr(asyncio, "sleep", stalled_async_sleep)
    use(kind)
    assert not stalls
    # A slot that was given back is still there, or was deleted if the clock was set back over it.
    assert [state for state in states() if state != "given back"] == [*["open"] * AHEAD, "finished"]
    used = Slot.objects.get(finished_at__isnull=False)
    assert used.finished_at is not None
    assert used.start_time <= used.finished_at


@both
def test_a_missed_window_costs_a_slow_site_a_minute(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not cost the interval: no process has used it."""
    site_settings.set_rate(SITE, "1/d")
    site_settings.pause(SITE, timedelta(seconds=0.3))
    monkeypatch.setattr(Run, "is_over", lambda _run, _now: True)
    with pytest.raises(slots.SlotTooFar) as refused:
        use(kind)
    assert 50 < refused.value.retry_after <= slots.RETRY


@both
def test_a_start_after_a_stall_keeps_the_interval(
    kind: str, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """However long a holder was stalled, it keeps its distance from the starts of others meanwhile."""
    slots.reserve(SITE, AHEAD)  # so that it has to wait
    others: list[float] = []
    real_sleep, real_async_sleep = time.sleep, asyncio.sleep

    def others_first(seconds: float) -> None:
        monkeypatch.setattr(time, "sleep", real_sleep)
        real_sleep(seconds)
        others.append(use_sync())

    async def others_first_async(seconds: float) -> None:
        monkeypatch.setattr(asyncio, "sleep", real_async_sleep)
        await real_async_sleep(seconds)
        others.append(await use_async())

    if kind == "throttle":
        monkeypatch.setattr(time, "sleep", others_first)
    else:
        monkeypatch.setattr(asyncio, "sleep", others_first_async)
    started_at = use(kind)
    assert started_at - others[0] >= INTERVAL
    assert states()[AHEAD - 1 : AHEAD + 1] == ["open", "given back"]
    eventually(lambda: states().count("finished") == 2, "both starts to be noted")


@both
def test_a_body_that_raises_has_used_its_slot(kind: str) -> None:
    """The request may have been sent: the slot is finished, and the exception goes on."""

    async def main() -> None:
        async with athrottle(SITE):
            raise Planned

    def body() -> None:
        with throttle(SITE):
            raise Planned

    with pytest.raises(Planned):
        body() if kind == "throttle" else run_async(main)
    assert states() == ["finished"]


@both
def test_what_a_body_did_stands_where_its_slot_cannot_be_finished(
    kind: str, other_connection: psycopg.Connection[Any]
) -> None:
    """The database goes away while the body runs: that is logged, and the caller does not repeat what was sent."""

    async def main() -> str:
        async with athrottle(SITE):
            await sync_to_async(lose_the_database)(other_connection)
            return "sent"

    def body() -> str:
        with throttle(SITE):
            lose_the_database(other_connection)
            return "sent"

    with capture_logs() as logs:
        assert (body() if kind == "throttle" else run_async(main)) == "sent"
    connection.close()
    assert [(log["event"], log["log_level"], log["slot"]) for log in logs] == [
        ("slot_not_finished", "warning", Slot.objects.latest("pk").pk)
    ]
    assert states()[-1] == "open"  # an earlier slot was given back, if the process was held up
    use(kind)  # the site goes on


@both
def test_what_a_body_raised_is_not_hidden_where_its_slot_cannot_be_finished(
    kind: str, other_connection: psycopg.Connection[Any]
) -> None:
    """The body's own exception is the one that its caller can act upon."""

    async def main() -> None:
        async with athrottle(SITE):
            await sync_to_async(lose_the_database)(other_connection)
            raise Planned

    def body() -> None:
        with throttle(SITE):
            lose_the_database(other_connection)
            raise Planned

    with capture_logs() as logs, pytest.raises(Planned):
        body() if kind == "throttle" else run_async(main)
    connection.close()
    assert [log["event"] for log in logs] == ["slot_not_finished"]


def test_an_interrupted_wait_gives_the_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting leaves the start to others, and the body is not run."""
    slots.reserve(SITE, AHEAD)  # so that it has to wait

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        use_sync()
    assert states() == [*["open"] * AHEAD, "given back"]


def test_why_a_wait_was_interrupted_is_told_where_the_slot_cannot_be_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database error is not raised instead: SystemExit, or a cancellation, must reach its receiver."""
    slots.reserve(SITE, AHEAD)  # so that it has to wait

    def interrupted(_seconds: float) -> None:
        raise SystemExit

    def lost(*_slots: int) -> int:
        raise OperationalError("The database is away.")

    monkeypatch.setattr(time, "sleep", interrupted)
    monkeypatch.setattr(slots, "release", lost)
    with capture_logs() as logs, pytest.raises(SystemExit):
        use_sync()
    assert [log["event"] for log in logs] == ["slot_not_given_back"]


def test_what_throttle_returns_is_for_one_use() -> None:
    """Two threads that share it would take each other's slots."""
    once = throttle(SITE)
    with once:
        pass
    with pytest.raises(RuntimeError, match="one `with`"):
        once.__enter__()


def test_a_decorated_function_takes_a_slot_at_each_call() -> None:
    """As each `with` does."""

    @throttle(SITE)
    def call() -> float:
        return clock.now()

    first, second = call(), call()
    assert second - first >= INTERVAL


def test_a_cancelled_wait_gives_the_slot_back() -> None:
    """Cancelling a task that waits for its slot leaves the start to others."""
    site_settings.set_rate(SITE, "1/10s")
    slots.reserve(SITE)

    async def main() -> None:
        waiting = asyncio.create_task(use_async())
        while await sync_to_async(Slot.objects.count)() < 2:  # noqa: ASYNC110  the database has no events
            await asyncio.sleep(0.01)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled()

    run_async(main)
    assert states() == ["open", "given back"]


def test_a_cancelled_body_has_used_its_slot() -> None:
    """Cancelling a task in its body finishes the slot before the cancellation goes on."""

    async def main() -> None:
        inside = asyncio.Event()

        async def body() -> None:
            async with athrottle(SITE):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await inside.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run_async(main)
    assert states() == ["finished"]


def test_a_cancelled_reservation_is_given_back(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """Cancelling during the statement gives back the slot that the statement then reserves."""
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")

    async def main() -> None:
        waiting = asyncio.create_task(use_async())
        await asyncio.to_thread(eventually, lambda: waiters(other_connection), "the reservation to wait")
        waiting.cancel()
        await asyncio.to_thread(other_connection.rollback)
        with suppress(asyncio.CancelledError):
            await waiting

    run_async(main)
    assert "open" not in states()


@both
def test_a_start_too_far_away_is_refused_without_waiting(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that would not wait long enough is refused immediately, with the time to wait, and reserves nothing."""
    site_settings.set_rate(SITE, "1/h")
    slots.reserve(SITE)
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("It waited."))
    with pytest.raises(slots.SlotTooFar) as refusal:
        use(kind)
    assert 3590 < refusal.value.retry_after <= 3601
    assert states() == ["open"]


@both
def test_the_longest_wait_counts_from_the_call(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall counts: a caller that missed its slot, and has no time left for another, is refused."""
    slots.reserve(SITE, AHEAD)  # so that it has to wait
    real_sleep, real_async_sleep = time.sleep, asyncio.sleep

    def use_up(_seconds: float) -> None:
        site_settings.back_off(SITE, 60)
        real_sleep(0.6)

    async def use_up_async(_seconds: float) -> None:
        await sync_to_async(site_settings.back_off)(SITE, 60)
        await real_async_sleep(0.6)

    async def asynchronously() -> None:
        async with athrottle(SITE, max_wait=10):
            pytest.fail("It started though its time was over.")

    def synchronously() -> None:
        with throttle(SITE, max_wait=10):
            pytest.fail("It started though its time was over.")

    monkeypatch.setattr(time, "sleep", use_up)
    monkeypatch.setattr(asyncio, "sleep", use_up_async)
    with pytest.raises(slots.SlotTooFar) as refusal:
        synchronously() if kind == "throttle" else run_async(asynchronously)
    assert refusal.value.retry_after > 50
    assert states() == [*["open"] * AHEAD, "given back"]


def test_no_transaction_is_held_while_waiting() -> None:
    """Inside a transaction a wait would hold its locks: it is refused, and nothing is reserved."""
    with pytest.raises(TransactionManagementError), transaction.atomic(), throttle(SITE):
        pytest.fail("It started inside a transaction.")
    assert states() == []
