"""HeldRun: who may start in the slots of a run that a process holds, and from when the interval counts."""

import asyncio
from contextlib import suppress

import pytest

from weir.ratelimit import clock
from weir.ratelimit.held.held_run import MARKED_IN_S, HeldRun, Missed, Unconfirmed
from weir.ratelimit.held.steps import Sleep
from weir.ratelimit.pacing import CONFIRMED_FOR_S, Confirmation, Run
from weir.ratelimit.slots import Reservation, ReservedSlot

INTERVAL_S = 0.1
GRACE_S = 0.05


class Clock:
    """The clock of holders, which only the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time_is(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock; it moves when the test says so."""
    made = Clock()
    monkeypatch.setattr(clock, "now", made)
    return made


def held_run(time_is: Clock, size: int = 5) -> HeldRun:
    """Return a run that begins now, and that a keeper keeps."""
    reserved = [ReservedSlot(id=number, start_at=time_is.now + number * INTERVAL_S) for number in range(size)]
    use_until = reserved[-1].start_at + GRACE_S
    run = Run(
        interval_s=INTERVAL_S,
        burst=1,
        start_until=use_until,
        use_until=use_until,
        confirmation=Confirmation(asked_at=time_is.now),
    )
    held = HeldRun(Reservation(site="a", slots=tuple(reserved), run=run, grace_s=GRACE_S, arrival_at=time_is.now))
    held.keep(lambda: None)
    return held


def test_nobody_starts_before_the_start_before_is_marked(time_is: Clock) -> None:
    """A caller that was let go may lose the processor before its body: the interval counts from when it had begun."""
    held = held_run(time_is)
    first, second = held.take_first(), held.take_first()
    assert held.try_start(first) == 0
    time_is.now += INTERVAL_S * 2
    assert held.try_start(second) == MARKED_IN_S
    first.has_begun = True
    assert held.try_start(second) == pytest.approx(INTERVAL_S)
    time_is.now += INTERVAL_S
    assert held.try_start(second) == 0


def test_a_caller_that_dies_before_its_mark_holds_nobody_up(time_is: Clock) -> None:
    """What raises in it has it put its slot back; the next one starts in its own."""
    held = held_run(time_is)
    first, second = held.take_first(), held.take_first()
    assert held.try_start(first) == 0
    time_is.now += INTERVAL_S
    held.put_back(first)
    assert held.try_start(second) == 0


def test_a_caller_that_is_lost_before_its_mark_holds_the_run_up_and_no_longer(time_is: Clock) -> None:
    """It cannot be known whether its body has begun: so the site is left as it was reserved."""
    held = held_run(time_is)
    first, second = held.take_first(), held.take_first()
    assert held.try_start(first) == 0
    assert held.stop(at_once=True) is None
    time_is.now += 4 * INTERVAL_S + GRACE_S
    with pytest.raises(Missed):
        held.try_start(second)
    rest = held.stop()
    assert rest is not None
    assert len(rest.free) == 3
    assert rest.free_at == pytest.approx(time_is.now + INTERVAL_S)


def test_a_slot_is_put_back_once(time_is: Clock) -> None:
    """No two callers get it."""
    held = held_run(time_is, size=1)
    taken = held.take_first()
    assert held.put_back(taken)
    assert held.put_back(taken)
    assert held.take(time_is.now + 1) is not None
    assert held.take(time_is.now + 1) is None


def test_the_interval_counts_from_the_beginning_of_a_long_body(time_is: Clock) -> None:
    """Where no other caller waits, the keeper is woken to note the start."""
    held = held_run(time_is)
    woken: list[float] = []
    held.keep(lambda: woken.append(time_is.now))
    first, second = held.take_first(), held.take_first()
    assert held.try_start(first) == 0
    assert woken == [time_is.now]
    first.has_begun = True
    held.note_start()
    time_is.now += INTERVAL_S
    held.ended(first, time_is.now)
    assert held.try_start(second) == 0


def test_a_body_that_ends_at_once_wakes_nobody(time_is: Clock) -> None:
    """It notes its start itself, and so will the next one: at a thousand starts a second each wake counts."""
    held = held_run(time_is)
    woken: list[float] = []
    held.keep(lambda: woken.append(time_is.now))
    for body_s in (0.001, 0.08, 0.001):
        taken = held.take_first()
        assert held.try_start(taken) == 0
        taken.has_begun = True
        time_is.now += body_s
        held.ended(taken, time_is.now)
        time_is.now += INTERVAL_S
    assert woken == pytest.approx([1_000, 1_000.281])  # the first one, and the one after the long one


def test_a_start_wakes_the_next_caller_in_line(time_is: Clock) -> None:
    """It notes the start; the keeper need not."""
    held = held_run(time_is)
    woken: list[str] = []
    held.keep(lambda: woken.append("keeper"))
    with held.sleeping(lambda: woken.append("caller")):
        held.try_start(held.take_first())
    assert woken == ["caller"]


@pytest.mark.parametrize(("body_s", "is_too_small"), [(0.01, True), (0.2, False)])
def test_a_caller_that_is_long_in_its_body_needs_no_longer_run(
    body_s: float, is_too_small: bool, time_is: Clock
) -> None:
    """It comes back later than the site could start again: single starts serve it as well."""
    held = held_run(time_is, size=1)
    only = held.take_first()
    held.try_start(only)
    only.has_begun = True
    time_is.now += body_s
    held.ended(only, time_is.now)
    assert held.need().is_too_small == is_too_small


def test_a_run_that_was_recalled_ends_for_all(time_is: Clock) -> None:
    """Those who wait are woken, nobody else gets a slot, and what is free is given back at once."""
    held = held_run(time_is)
    first = held.take_first()
    woken: list[str] = []
    with held.sleeping(lambda: woken.append("caller")):
        held.confirmed(time_is.now, stands=False)
    with pytest.raises(Missed):
        held.try_start(first)
    assert woken == ["caller"]
    assert held.take(time_is.now + 1) is None
    assert not held.has_free_slots()
    assert held.stop() is None  # until the caller that waited has put its slot back
    held.put_back(first)
    assert held.stop() is not None


def test_an_answer_that_is_late_says_nothing_about_now(time_is: Clock) -> None:
    """What was asked half a second ago confirms no start."""
    held = held_run(time_is, size=20)
    first = held.take_first()
    time_is.now += CONFIRMED_FOR_S
    held.confirmed(time_is.now - CONFIRMED_FOR_S, stands=True)
    with pytest.raises(Unconfirmed):
        held.try_start(first)


def test_a_task_whose_loop_was_closed_holds_nobody_up(time_is: Clock) -> None:
    """It waited in line, and is never woken: the caller that wakes the next one starts all the same."""
    held = held_run(time_is)
    loop = asyncio.new_event_loop()
    waiting = Sleep(held, 10).take_async()
    task = loop.create_task(waiting)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert not task.done()
    assert held.try_start(held.take_first()) == 0
    with suppress(RuntimeError):  # its loop is closed
        waiting.close()
