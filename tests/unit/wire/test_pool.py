"""The pool: what waits for the next request of its origin, and for how long."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from tests.unit.wire.pairs import pair, until
from weir.workers.fetches.fetcher.wire import pool as pools
from weir.workers.fetches.fetcher.wire.connection import HttpConnection, WireState
from weir.workers.fetches.fetcher.wire.pool import Pool

ORIGIN = ("http://site.example", "")
OTHER = ("http://other.example", "")


def run(act: Callable[[Pool, list[HttpConnection]], Awaitable[None]]) -> None:
    """Do this with a pool and three connections, whose sites keep them open."""

    async def running() -> None:
        pool = Pool(asyncio.get_running_loop())
        pairs = [pair() for _ in range(3)]
        try:
            await asyncio.wait_for(act(pool, [connection for connection, _ in pairs]), 10)
        finally:
            for connection, site in pairs:
                connection.close()
                site.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running())


def test_the_connection_used_last_is_used_next() -> None:
    """Those that are not needed any more grow old; another origin gets none of them, nor another way to this one."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        for connection in connections:
            pool.give_back(ORIGIN, connection)
        assert {connection.state for connection in connections} == {WireState.IDLE}
        assert pool.take(OTHER) is pool.take((ORIGIN[0], "by another proxy")) is None
        assert [pool.take(ORIGIN) for _ in range(4)] == [*reversed(connections), None]
        assert {connection.state for connection in connections} == {WireState.WAITING}

    run(act)


def test_what_cannot_carry_another_request_is_closed() -> None:
    """Whatever it was doing."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        connections[0].state = WireState.BODY
        connections[1].close()
        for connection in connections[:2]:
            pool.give_back(ORIGIN, connection)
            assert connection.state is WireState.CLOSED
        assert pool.take(ORIGIN) is None

    run(act)


def test_a_connection_waits_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that comes long after the first was looked for; one that was taken out is left alone."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        pool.give_back(ORIGIN, connections[2])
        pool._sweep()
        assert pool.take(ORIGIN) is connections[2]
        monkeypatch.setattr(pools, "KEPT_S", 0.05)
        for connection in connections[:2]:
            pool.give_back(ORIGIN, connection)
        assert pool.take(ORIGIN) is connections[1]
        await until(lambda: connections[0].state is WireState.CLOSED)
        assert connections[1].state is WireState.WAITING
        assert pool.take(ORIGIN) is None
        pool.give_back(ORIGIN, connections[2])
        await until(lambda: connections[2].state is WireState.CLOSED)

    run(act)


def waiting_since(pool: Pool, connection: HttpConnection, seconds: float) -> None:
    """Let it wait in the pool, as if its last answer had come so long ago."""
    pool.give_back(ORIGIN, connection)
    connection.since -= seconds


def test_none_waits_as_long_as_one_that_its_site_gave_up() -> None:
    """Nor half as long, by the time of the request; those of other origins do, and all do again after a while."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        first, second, third = connections
        waiting_since(pool, first, 60)
        assert pool.take(ORIGIN) is first
        pool.gave_up(ORIGIN, first)
        for seconds, ahead_s, is_taken in ((10, 10, True), (5, 20, False)):
            waiting_since(pool, second, seconds)
            assert pool.take(ORIGIN, ahead_s) is (second if is_taken else None)
        assert second.state is WireState.CLOSED
        waiting_since(pool, third, 60)
        pool._learned.note(OTHER, pool._learned.pop(ORIGIN))
        assert pool.take(ORIGIN) is third
        waiting_since(pool, third, 60)
        pool._learned.note(ORIGIN, (asyncio.get_running_loop().time(), 0.0))
        assert pool.take(ORIGIN) is third

    run(act)


def test_one_that_has_waited_for_too_long_hides_no_other() -> None:
    """It may have come back last, as it was taken in vain."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        pool._learned.note(ORIGIN, (asyncio.get_running_loop().time() + 60, 30.0))
        for connection, seconds in zip(connections, (0, 60, 60), strict=True):
            waiting_since(pool, connection, seconds)
        assert pool.take(ORIGIN) is connections[0]
        assert {connection.state for connection in connections[1:]} == {WireState.CLOSED}

    run(act)


def test_one_that_was_given_up_soon_tells_nothing_of_others() -> None:
    """It was not its waiting: the site may have ended, or lets a connection carry so many requests."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        waiting_since(pool, connections[0], pools.SHORTEST_S / 10)
        assert pool.take(ORIGIN) is connections[0]
        pool.gave_up(ORIGIN, connections[0])
        waiting_since(pool, connections[1], 60)
        assert pool.take(ORIGIN) is connections[1]

    run(act)


def test_a_connection_that_was_taken_in_vain_has_waited_since_its_last_answer() -> None:
    """The site counts from there, and not from when the request was given up."""

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        waiting_since(pool, connections[0], 60)
        assert pool.take(ORIGIN) is connections[0]
        pool.give_back(ORIGIN, connections[0])
        assert connections[0].since < asyncio.get_running_loop().time() - 50
        pool._sweep()
        assert connections[0].state is WireState.CLOSED

    run(act)


def test_one_look_at_a_time_is_taken_for_old_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are given back; and none where there are none, or the pool is closed, which it may be twice."""
    monkeypatch.setattr(pools, "KEPT_S", 0.03)
    looks = []
    look = Pool._sweep

    def counted(pool: Pool) -> None:
        looks.append(pool)
        look(pool)

    monkeypatch.setattr(Pool, "_sweep", counted)

    async def act(pool: Pool, connections: list[HttpConnection]) -> None:
        for connection in connections:
            pool.give_back(ORIGIN, connection)
        await until(lambda: all(connection.state is WireState.CLOSED for connection in connections))
        assert len(looks) <= 5  # each 10 ms for 40 ms
        first, second = pair()
        with second:
            pool.give_back(ORIGIN, first)
            pool.close()
            pool.close()
            assert first.state is WireState.CLOSED
            looks.clear()
            await asyncio.sleep(0.05)  # what must not happen has time for it
            assert not looks

    run(act)
