"""A request that comes too late for its slot: whose fault it was decides whether an attempt is counted."""

import asyncio
import time

import pytest
from django.conf import LazySettings

from ratelimit.pacing import Confirmation, Run
from workers.fetches.claim import Job
from workers.fetches.paced_request import BUSY, OPEN_AHEAD, Attempt, Batch, ConnectionTooSlow, RunOver, Unanswered


def job(*, ended_s_ago: float) -> Job:
    now = time.monotonic()
    return Job(
        fetch_id=1,
        url="https://site.example/",
        redirects=0,
        attempts=0,
        max_attempts=5,
        site_id=1,
        site="site.example",
        slot_id=1,
        start_at=now - ended_s_ago,
        run=Run(
            interval_s=1.0,
            burst=1,
            start_until=now - ended_s_ago,
            use_until=now - ended_s_ago,
            confirmation=Confirmation(asked_at=now),
        ),
    )


async def late(*, connecting_s: float, busy_s: float = 0.0) -> None:
    """Come too late after so long a connecting, with a loop that something else keeps busy."""
    one = job(ended_s_ago=0.1)
    attempt = Attempt(one, Batch([one]), (), Unanswered())
    attempt._began_at -= connecting_s
    if busy_s:
        asyncio.get_running_loop().call_soon(time.sleep, busy_s)
    await attempt.wait_for_turn()


def test_a_connection_that_takes_longer_than_it_was_given_counts_as_an_attempt() -> None:
    with pytest.raises(ConnectionTooSlow, match=r"took 0\.6 s"):
        asyncio.run(late(connecting_s=OPEN_AHEAD + 0.1))


def test_a_run_that_ended_while_a_quick_connection_opened_counts_nothing() -> None:
    with pytest.raises(RunOver):
        asyncio.run(late(connecting_s=OPEN_AHEAD / 2))


def test_a_fetcher_that_is_overloaded_does_not_blame_the_site() -> None:
    with pytest.raises(RunOver):
        asyncio.run(late(connecting_s=OPEN_AHEAD + 0.1, busy_s=2 * BUSY))


def test_however_many_sites_hang_there_is_room_for_the_next(settings: LazySettings) -> None:
    """Each may have a fifth of what the others leave over; what was answered leaves its room to others."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 1_000
    unanswered = Unanswered()
    shares = []
    for site in range(20):
        shares.append(0)
        while not unanswered.has_its_share(site):
            unanswered.began(site)
            shares[-1] += 1
    assert shares[:3] == [200, 160, 128]
    assert all(share >= 1 for share in shares)
    assert sum(shares) < 1_000
    for _ in range(shares[0]):
        unanswered.ended(0)
    assert not unanswered.has_its_share(20)
    assert not unanswered.has_its_share(0)
