"""The bytes of bodies that a fetcher holds: never more than it may, and no site has all of them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from django.conf import LazySettings

from workers.fetches.fetcher.http.bodies import Budget
from workers.fetches.jobs import Reservation


@pytest.fixture(autouse=True)
def hundred_bytes(settings: LazySettings) -> None:
    settings.WEIR_FETCH_MAX_MEMORY = 100


def run(act: Callable[[Budget], Awaitable[None]]) -> None:
    async def running() -> None:
        await act(Budget())

    asyncio.run(running())


async def granted(*waiting: asyncio.Task[Reservation]) -> list[bool]:
    await asyncio.sleep(0.01)
    return [one.done() for one in waiting]


def reserve(budget: Budget, site: int, size: int) -> asyncio.Task[Reservation]:
    return asyncio.ensure_future(budget.reserve(site, size))


def test_bodies_wait_for_their_turn_while_all_bytes_are_held() -> None:
    """A small one does not overtake a large one, which would wait for ever."""

    async def act(budget: Budget) -> None:
        first, second, large, small = (reserve(budget, site, size) for site, size in enumerate((60, 30, 40, 5)))
        assert await granted(first, second, large, small) == [True, True, False, False]
        budget.free(second.result())
        assert await granted(large, small) == [True, False]
        budget.free(first.result(), but=50)
        assert await granted(small) == [True]

    run(act)


def test_a_site_has_a_quarter_and_lets_others_pass() -> None:
    """One body it may have always, however large."""

    async def act(budget: Budget) -> None:
        large, again, other = reserve(budget, 1, 60), reserve(budget, 1, 5), reserve(budget, 2, 20)
        assert await granted(large, again, other) == [True, False, True]
        budget.free(large.result())
        assert await granted(again) == [True]

    run(act)


def test_a_body_that_is_larger_than_everything_is_read_alone() -> None:
    """WEIR_FETCH_MAX_BODY may be larger than WEIR_FETCH_MAX_MEMORY."""

    async def act(budget: Budget) -> None:
        huge, other = reserve(budget, 1, 500), reserve(budget, 2, 1)
        assert await granted(huge, other) == [True, False]
        budget.free(huge.result())
        budget.free(huge.result(), but=0)
        assert await granted(other) == [True]

    run(act)


def test_a_body_that_is_given_up_while_it_waits_holds_nothing() -> None:
    """Those behind it go on."""

    async def act(budget: Budget) -> None:
        first, given_up, last = reserve(budget, 1, 80), reserve(budget, 2, 90), reserve(budget, 3, 20)
        assert await granted(first, given_up, last) == [True, False, False]
        given_up.cancel()
        await asyncio.sleep(0)
        budget.free(first.result(), but=80)
        assert await granted(last) == [True]

    run(act)
