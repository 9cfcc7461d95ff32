"""Turns: one piece of work in each, in the order in which they came."""

import asyncio
from functools import partial
from itertools import pairwise

import uvloop

from tests.unit.wire.pairs import until
from weir.workers.fetches.fetcher.wire.turns import Turns

ANSWERS, READS = 5, 3
EVERY_S = 0.01


def test_however_many_answers_are_read_slowly_one_is_read_in_a_turn() -> None:
    """They take turns; what is read again and again takes no more turns than the others, and turns end with them."""
    read: list[tuple[int, float]] = []

    async def reading() -> None:
        loop = asyncio.get_running_loop()
        slow = Turns(loop, every_s=EVERY_S)

        def once(answer: int, left: int) -> bool:
            read.append((answer, loop.time()))
            if left:
                slow.enter(partial(once, answer, left - 1))
            return True

        for turns in (1, 2):  # the second time after all turns have ended
            for answer in range(ANSWERS):
                slow.enter(partial(once, answer, READS - 1))
            await until(lambda: len(read) == turns * ANSWERS * READS)  # noqa: B023  it is awaited here

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(reading(), 10))
    assert [answer for answer, _ in read] == [*range(ANSWERS)] * READS * 2
    gaps = [later - earlier for (_, earlier), (_, later) in pairwise(read)]
    assert min(gaps) > EVERY_S / 2


def test_a_read_that_fails_holds_up_no_other() -> None:
    """Whatever it is, it is the fault of one answer."""
    read: list[int] = []

    def fail() -> bool:
        raise RuntimeError

    def succeed() -> bool:
        read.append(1)
        return True

    async def reading() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: read.append(0))
        slow = Turns(loop, every_s=EVERY_S)
        slow.enter(fail)
        slow.enter(succeed)
        await until(lambda: len(read) == 2)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(reading(), 10))
    assert read == [0, 1]


def test_what_has_nothing_to_do_takes_no_turn() -> None:
    """As where a connection was closed meanwhile."""
    read: list[int] = []

    def work(number: int) -> bool:
        read.append(number)
        return number % 100 == 99

    async def reading() -> None:
        slow = Turns(asyncio.get_running_loop(), every_s=60.0)
        for number in range(200):
            slow.enter(partial(work, number))
        slow._take()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(reading(), 10))
    assert read == [*range(100)]
