"""Handshakes: however many there are at once, and whatever certificates come, the loop goes on in between."""

import asyncio
import gc
import ssl
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from tests.unit.wire.pairs import until
from weir.workers.fetches.fetcher.wire import handshakes as module
from weir.workers.fetches.fetcher.wire import turns
from weir.workers.fetches.fetcher.wire.handshakes import USUAL, Handshakes

STEP_S = 0.002


class Clock:
    """It goes on by STEP_S with each step."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Step:
    """In place of TLS: notes in which turn of the loop it was asked to go on."""

    def __init__(self, done: list["Step"], clock: Clock, error: type[Exception] | None = None) -> None:
        self._done, self._clock, self._error = done, clock, error

    def shake(self) -> bool:
        self._clock.now += STEP_S
        self._done.append(self)
        if self._error:
            raise self._error("broken")
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns, "time", made)
    return made


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def running() -> None:
        await asyncio.wait_for(act(), 10)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running())


def test_a_turn_of_the_loop_has_a_few_steps(clock: Clock) -> None:
    """Three hundred connections may be opened at once, each of which takes a millisecond or two."""
    done: list[Step] = []
    of_turns: list[int] = []

    async def act() -> None:
        handshakes: Any = Handshakes(asyncio.get_running_loop())
        shaking = [asyncio.ensure_future(handshakes.shake(Step(done, clock), 0)) for _ in range(100)]
        while len(done) < len(shaking):
            before = len(done)
            await asyncio.sleep(0)
            of_turns.append(len(done) - before)
        assert await asyncio.gather(*shaking) == [True] * 100

    run(act)
    assert 1 < max(of_turns) <= 1 + module.TURN_S / STEP_S


def test_long_certificates_wait_for_turns_of_their_own(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may take ten times as long for these: the others pass them by."""
    monkeypatch.setattr(module, "LARGE_EVERY_S", 0.05)
    done: list[Step] = []

    async def act() -> None:
        handshakes: Any = Handshakes(loop := asyncio.get_running_loop())
        large, usual = ([Step(done, clock) for _ in range(number)] for number in (3, 50))
        began_at = loop.time()
        shaking = [
            asyncio.ensure_future(handshakes.shake(step, came))
            for steps, came in ((large, USUAL + 1), (usual, USUAL))
            for step in steps
        ]
        await asyncio.gather(*shaking)
        assert loop.time() - began_at >= 0.09
        assert [step for step in done if step in large] == large
        assert done[-2:] == large[1:]

    run(act)


def test_what_is_given_up_is_left_out(clock: Clock) -> None:
    """Nobody waits for it any more."""
    done: list[Step] = []

    async def act() -> None:
        handshakes: Any = Handshakes(asyncio.get_running_loop())
        given_up = asyncio.ensure_future(handshakes.shake(Step(done, clock), 0))
        asyncio.get_running_loop().call_soon(given_up.cancel)
        await until(lambda: given_up.done() and not handshakes._usual._waiting)

    run(act)
    assert not done


def test_what_is_given_up_takes_no_turn_of_those_behind_it(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else many long certificates, which are given up in time, would leave no turn to one that is not."""
    monkeypatch.setattr(module, "LARGE_EVERY_S", 60.0)
    done: list[Step] = []

    async def act() -> None:
        handshakes: Any = Handshakes(asyncio.get_running_loop())
        shaking = [asyncio.ensure_future(handshakes.shake(Step(done, clock), USUAL + 1)) for _ in range(10)]
        await asyncio.sleep(0)
        handshakes._large._take()  # a turn of which each comes in a minute
        await shaking[0]
        for each in shaking[1:-1]:
            each.cancel()
        await asyncio.sleep(0)
        handshakes._large._take()
        assert await shaking[-1]
        late = asyncio.ensure_future(handshakes.shake(Step(done, clock), USUAL + 1))
        await until(lambda: handshakes._large._waiting)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not late.done(), "the next turn is a minute later, though nothing waited for it"
        late.cancel()

    run(act)
    assert len(done) == 2


@pytest.mark.parametrize("error", [ssl.SSLError, MemoryError, ValueError])
def test_whatever_goes_wrong_in_a_step_the_others_go_on(error: type[Exception], clock: Clock) -> None:
    """Memory may be short, and a certificate may hold what Python cannot read."""

    async def act() -> None:
        handshakes: Any = Handshakes(asyncio.get_running_loop())
        steps = [Step([], clock, error), Step([], clock)]
        told, other = (asyncio.ensure_future(handshakes.shake(step, 0)) for step in steps)
        assert await other
        with pytest.raises(error, match="broken"):
            await told

    run(act)


class Broken(ssl.SSLError):
    """One that can be looked for."""


def test_an_error_is_told_and_leaves_nothing_to_the_garbage_collector(clock: Clock) -> None:
    """The collector stops the loop, so a fetcher runs it seldom."""
    told: list[weakref.ref[Broken]] = []

    async def act() -> None:
        handshakes: Any = Handshakes(asyncio.get_running_loop())
        try:
            await handshakes.shake(Step([], clock, Broken), 0)
        except Broken as error:
            told.append(weakref.ref(error))

    gc.collect()
    gc.disable()
    try:
        run(act)
        assert [error() for error in told] == [None]
    finally:
        gc.enable()
