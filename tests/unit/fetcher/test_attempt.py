"""A request that comes too late for its slot: an attempt is counted only if the site caused that."""

import asyncio
import time
from dataclasses import replace

import pytest
from pytest_django import Settings

from tests.unit.wire.pairs import pair
from weir.conf import settings as weir_settings
from weir.ratelimit import clock
from weir.ratelimit.pacing import Confirmation, Run
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.http.attempt import BUSY, Attempt, AttemptContext, RunOver
from weir.workers.fetches.fetcher.http.faults import ConnectionTooSlow, NoRoomInTime
from weir.workers.fetches.fetcher.http.heads import Request
from weir.workers.fetches.fetcher.http.openings import OPEN_AHEAD, Openings
from weir.workers.fetches.fetcher.http.unanswered import Unanswered
from weir.workers.fetches.fetcher.in_flight import BatchInFlight, HeldJob
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.jobs import STORING, HeldBytes, Job


def job(*, ended_s_ago: float) -> Job:
    now = clock.now()
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


async def late(*, connecting_s: float, busy_s: float = 0.0, known: bool = True) -> None:
    """Come too late after so long a connecting, with a loop that something else keeps busy."""
    one = job(ended_s_ago=0.1)
    shared = AttemptContext(allowed=Allowed())
    if known:
        shared.openings.note(one.site_id, connecting_s)
    attempt = Attempt(HeldJob(job=one, batch=BatchInFlight([one])), shared)
    attempt._opened_s = connecting_s
    if busy_s:
        asyncio.get_running_loop().call_soon(time.sleep, busy_s)
    connection, other_end = pair()
    with other_end:
        await attempt.write_in_turn(connection, Request(b"", {}), AnswerReader(0))


def test_a_connection_that_takes_longer_than_it_was_given_counts_as_an_attempt() -> None:
    """The request began as early as the site's connections need."""
    with pytest.raises(ConnectionTooSlow, match=r"took 0\.6 s"):
        asyncio.run(late(connecting_s=OPEN_AHEAD + 0.1))


def test_the_first_slow_connection_of_a_site_counts_nothing() -> None:
    """The fetcher did not know yet how early it has to begin."""
    with pytest.raises(RunOver):
        asyncio.run(late(connecting_s=OPEN_AHEAD + 0.1, known=False))


def test_a_request_begins_as_early_as_the_connections_of_its_site_need() -> None:
    """Half a second, and more only for a site that was slow lately."""
    openings = Openings()
    openings.note(1, 0.2)
    assert (openings.ahead_s(1), openings.are_known_slow(1)) == (OPEN_AHEAD, False)
    openings.note(1, 2.0)
    assert openings.ahead_s(1) == pytest.approx(3.0)
    openings.note(1, 0.1)
    assert openings.ahead_s(1) == pytest.approx(2.7)
    for _ in range(20):
        openings.note(1, 0.1)
    assert (openings.ahead_s(1), openings.are_known_slow(1)) == (OPEN_AHEAD, False)


def test_a_run_that_ended_while_a_quick_connection_opened_counts_nothing() -> None:
    with pytest.raises(RunOver):
        asyncio.run(late(connecting_s=OPEN_AHEAD / 2))


def test_a_fetcher_that_is_overloaded_does_not_blame_the_site() -> None:
    with pytest.raises(RunOver):
        asyncio.run(late(connecting_s=OPEN_AHEAD + 0.1, busy_s=2 * BUSY))


def test_a_host_that_was_suspended_starts_nothing_in_a_run_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's timers stood still meanwhile, and so would a confirmation."""
    real, ahead = clock.now, [0.0]
    monkeypatch.setattr(clock, "now", lambda: real() + ahead[0])

    async def suspended() -> None:
        one = job(ended_s_ago=-0.2)
        one.run.start_until = one.run.use_until = real() + 5.0
        attempt = Attempt(HeldJob(job=one, batch=BatchInFlight([one])), AttemptContext(allowed=Allowed()))
        connection, other_end = pair()
        waiting = asyncio.ensure_future(attempt.write_in_turn(connection, Request(b"", {}), AnswerReader(0)))
        await asyncio.sleep(0)
        ahead[0] = 10.0
        with other_end:
            await waiting

    with pytest.raises(RunOver):
        asyncio.run(suspended())


async def answered_without_room(*, room_after_s: float | None) -> None:
    """Let an answer wait for memory; its site sends nothing more where it may go on."""
    now = clock.now()
    one = replace(job(ended_s_ago=-0.2), start_at=now)
    one.run.use_until = now + 5.0
    shared, reader = AttemptContext(allowed=Allowed()), AnswerReader(2**20)
    others = HeldBytes(site_id=2)
    shared.memory.hold(others, weir_settings.WEIR_FETCH_MAX_MEMORY)
    attempt = Attempt(HeldJob(job=one, batch=BatchInFlight([one])), shared)
    connection, other_end = pair()
    attempt._connection = connection
    with other_end:
        if room_after_s:
            asyncio.get_running_loop().call_later(room_after_s, shared.memory.free, [others])
        await attempt.write_in_turn(connection, Request(b"GET", {}), reader)
        other_end.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(100_000))
        try:
            async with asyncio.timeout(STORING):
                await connection.answer()
        finally:
            attempt.end()
    assert not shared.memory._waiting


@pytest.mark.parametrize("room_after_s", [None, 0.8], ids=["none", "late"])
def test_an_answer_that_waits_for_memory_is_given_up_while_it_can_be_stored(
    room_after_s: float | None, settings: Settings
) -> None:
    """Its time-out stands still, and its lease does not. Sweep would say that the fetcher died."""
    settings.WEIR_FETCH_MAX_MEMORY = 2**16
    settings.WEIR_FETCH_DNS_TIMEOUT = settings.WEIR_FETCH_CONNECT_TIMEOUT = 0.1
    settings.WEIR_FETCH_TIMEOUT = 0.6
    began_at = clock.now()
    with pytest.raises(NoRoomInTime, match="WEIR_FETCH_MAX_MEMORY"):
        asyncio.run(answered_without_room(room_after_s=room_after_s))
    assert 0.9 < clock.now() - began_at < STORING


def hang(unanswered: Unanswered, site: int) -> int:
    """Begin as many requests to the site as may be, none of which is answered; returns their number."""
    count = 0
    while unanswered.has_room_for(site, f"address of {site}"):
        unanswered.began(site, f"address of {site}")
        count += 1
    return count


def test_a_site_may_have_a_fifth_of_what_others_leave_of_two_fifths(settings: Settings) -> None:
    """What was answered leaves its room to others."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 1_000
    unanswered = Unanswered()
    assert [hang(unanswered, site) for site in range(3)] == [80, 64, 52]
    for _ in range(80):
        unanswered.ended(0, f"address of {0}")
    assert hang(unanswered, 3) == 57


def test_while_fewer_than_a_fifth_hang_the_next_site_has_room(settings: Settings) -> None:
    """One after the other takes all it can; each has its first request at least, and takes what another loses."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 1_000
    unanswered = Unanswered()
    for site in range(199):
        assert hang(unanswered, site) >= 1
    for site in range(199):
        unanswered.ended(site, f"address of {site}")
        hang(unanswered, 198 - site)
        assert hang(unanswered, site) <= 1
        assert unanswered.has_room_for(199, f"address of {199}")


def test_what_hangs_never_fills_a_process(settings: Settings) -> None:
    """However many sites hang, two fifths of what a process may hold are left to fetches that wait for their slots."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 1_000
    unanswered = Unanswered()
    assert sum(hang(unanswered, site) for site in range(2_000)) == 600
    assert not any(unanswered.has_room_for(site, f"address of {site}") for site in range(2_001))
    unanswered.ended(0, f"address of {0}")
    assert unanswered.has_room_for(2_000, f"address of {2_000}")
    assert not unanswered.has_room_for(0, f"address of {0}"), "it has requests in flight, and others none"


def test_a_process_that_may_hold_one_fetch_only_has_room_for_it(settings: Settings) -> None:
    """The smallest setting works too."""
    settings.WEIR_FETCH_MAX_IN_FLIGHT = 1
    unanswered = Unanswered()
    assert [hang(unanswered, site) for site in range(2)] == [1, 0]
