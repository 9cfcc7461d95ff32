"""Kept connections: which answers end theirs, and what a 408 in answer to our request means."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_network

import pytest
import uvloop

from tests.cases import for_each
from weir.ratelimit import clock
from weir.ratelimit.pacing import Confirmation, Run
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.http.attempt import RunOver
from weir.workers.fetches.fetcher.http.openings import Openings
from weir.workers.fetches.fetcher.http.session import CLOSED_EARLY, CLOSINGS, Session
from weir.workers.fetches.fetcher.in_flight import BatchInFlight, HeldJob
from weir.workers.fetches.fetcher.wire import pool as pools
from weir.workers.fetches.fetcher.wire.connection import ConnectionClosedEarly, HttpConnection, WireState
from weir.workers.fetches.fetcher.wire.pool import Pool
from weir.workers.fetches.jobs import Answer, Event, Failure, Job, Snoozed

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
NOTHING = b""  # the site closes the connection
WAITED = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Site:
    """It answers the requests of each connection in turn, and goes on listening there whatever it has said."""

    def __init__(self, *scripts: Sequence[bytes]) -> None:
        self.requests: list[int] = []  # of each connection
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._scripts = scripts
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                self.requests.append(0)
                threading.Thread(target=self._serve, args=(accepted, len(self.requests) - 1), daemon=True).start()

    def _serve(self, accepted: socket.socket, place: int) -> None:
        script = self._scripts[min(place, len(self._scripts) - 1)]
        with accepted, suppress(OSError):
            while accepted.recv(10_000):
                answer = script[min(self.requests[place], len(script) - 1)]
                self.requests[place] += 1
                if answer == NOTHING:
                    return
                accepted.sendall(answer)


@contextmanager
def site_of(*scripts: Sequence[bytes]) -> Iterator[Site]:
    site = Site(*scripts)
    try:
        yield site
    finally:
        site.close()


def events_of(
    site: Site,
    number: int,
    answered: list[int] | None = None,
    ids: Sequence[int] | None = None,
    ahead_s: float = 0.0,
) -> list[Event]:
    """Let one session request the site's page so often, for fetches of these ids, one request after the other."""

    async def act() -> list[Event]:
        session = Session(
            Allowed(networks=(ip_network("127.0.0.0/8"),)),
            lambda _job, status, _headers: (answered if answered is not None else []).append(status),
            lambda *_: None,
            lambda *_: None,
        )
        try:
            return [await session.fetch(held(site.url, fetch_id, ahead_s)) for fetch_id in ids or [1] * number]
        finally:
            session.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(act(), 20))


def held(url: str, fetch_id: int, ahead_s: float) -> HeldJob:
    first = clock.now() + ahead_s
    confirmation = Confirmation(asked_at=first + 60)
    job = Job(
        fetch_id=fetch_id,
        url=url,
        redirects=0,
        attempts=0,
        max_attempts=1,
        site_id=1,
        site="site",
        slot_id=1,
        start_at=first,
        run=Run(interval_s=0.0, burst=1, start_until=first + 5, use_until=first + 5, confirmation=confirmation),
    )
    return HeldJob(job=job, batch=BatchInFlight([job]))


def with_head(*lines: bytes, version: bytes = b"1.1") -> bytes:
    return b"\r\n".join([b"HTTP/" + version + b" 200 OK", b"Content-Length: 4", *lines, b"", b"page"])


ENDING = {
    "close": with_head(b"Connection: close"),
    "in capitals": with_head(b"CONNECTION: CLOSE"),
    "in a list": with_head(b"Connection: foo, close"),
    "first in a list": with_head(b"Connection: close, foo"),
    "in a list without blanks": with_head(b"Connection: foo,close,bar"),
    "in the second line": with_head(b"Connection: foo", b"Connection: close"),
    "in the first line of two": with_head(b"Connection: close", b"Connection: foo"),
    "beside keep-alive": with_head(b"Connection: keep-alive, close"),
    "in a line before keep-alive": with_head(b"Connection: close", b"Connection: keep-alive"),
    "with a blank behind": with_head(b"Connection: close \t"),
    "HTTP/1.0": with_head(version=b"1.0"),
    "HTTP/1.0, to be closed": with_head(b"Connection: close", version=b"1.0"),
    "more than its body": PAGE + b"x",
    "a second answer": PAGE + PAGE,
    "two equal lengths": with_head(b"Content-Length: 4"),
    "a line that is none": with_head(b"what is this"),
}
KEEPING = {
    "nothing said": PAGE,
    "keep-alive": with_head(b"Connection: keep-alive"),
    "HTTP/1.0 that keeps it": with_head(b"Connection: Keep-Alive", version=b"1.0"),
    "an option that only begins so": with_head(b"Connection: closed"),
    "of a proxy's own": with_head(b"Proxy-Connection: foo"),
    "nothing to say": b"HTTP/1.1 204 No Content\r\n\r\n",
    "nothing new": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 400\r\n\r\n",
}


@for_each("what", ENDING)
def test_a_connection_that_is_to_be_closed_carries_no_other_request(what: str) -> None:
    """However it is said, and even where the site would go on listening."""
    with site_of([ENDING[what]]) as site:
        events = events_of(site, 3)
    assert [type(event) for event in events] == [Answer] * 3
    assert site.requests == [1, 1, 1]


@for_each("what", KEEPING)
def test_other_connections_carry_the_next_request(what: str) -> None:
    """Nothing is opened anew that need not be."""
    with site_of([KEEPING[what]]) as site:
        events = events_of(site, 3)
    assert [type(event) for event in events] == [Answer] * 3
    assert site.requests == [3]


def test_a_408_on_a_kept_connection_is_the_end_of_the_sites_wait() -> None:
    """It gave the connection up as our request came, which is asked again on a new one, and counts nothing."""
    answered: list[int] = []
    with site_of([PAGE, WAITED], [PAGE]) as site:
        events = events_of(site, 3, answered)
    assert [type(event) for event in events] == [Answer, Snoozed, Answer]
    assert isinstance(events[1], Snoozed)
    assert events[1].slot_used
    assert site.requests == [2, 1]
    assert answered == [200, 408, 200], "a site that is refusing so is heard"


def test_a_fetch_whose_kept_connections_are_always_given_up_gets_a_new_one() -> None:
    """CLOSINGS times it counts nothing; then no kept connection is tried any more, though there is one."""
    with site_of([PAGE, WAITED]) as site:
        events = events_of(site, 2 * CLOSINGS + 3, ids=[1, *[2, 1] * CLOSINGS, 2, 1])
    assert [type(event) for event in events] == [Answer, *[Snoozed, Answer] * CLOSINGS, Answer, Snoozed]
    assert site.requests == [*[2] * CLOSINGS, 1, 2], "the last one but one waits"


@pytest.mark.parametrize("answer", [NOTHING, WAITED])
def test_no_request_is_sent_on_what_has_waited_as_long_as_one_that_was_given_up(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every second slot would be lost at a site that waits just as long as requests are apart."""
    monkeypatch.setattr(pools, "SHORTEST_S", 0.0)
    monkeypatch.setattr(pools, "SAFE", 0.0)
    with site_of([PAGE, answer]) as site:
        events = events_of(site, 5)
    assert [type(event) for event in events] == [Answer, Snoozed, Answer, Answer, Answer]
    assert site.requests == [2, 1, 1, 1]


@pytest.mark.parametrize(("is_kept", "requests"), [(True, [1, 1]), (False, [0, 2])])
def test_what_is_given_up_while_it_waits_for_its_slot_is_told_to_the_pool(
    is_kept: bool, requests: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request gets another connection, and may come too late: the next one is not to wait as long.

    Of one that is new, the site has another reason.
    """
    closed, given_up = list[HttpConnection](), list[HttpConnection]()
    monkeypatch.setattr(Pool, "gave_up", lambda _pool, _origin, connection: given_up.append(connection))
    sleep = HttpConnection.sleep

    async def slept(connection: HttpConnection, seconds: float) -> None:
        if connection.has_carried is is_kept and not closed:
            closed.append(connection)
            connection.close()  # as what comes from the site does
        await sleep(connection, min(seconds, 0.01))

    monkeypatch.setattr(HttpConnection, "sleep", slept)
    with site_of([PAGE]) as site:
        events = events_of(site, 2, ahead_s=0.1)
    assert [type(event) for event in events] == [Answer, Answer]
    assert site.requests == requests
    assert [connection.state for connection in closed] == [WireState.CLOSED]
    assert given_up == (closed if is_kept else [])


def test_where_each_connection_just_ends_before_the_request_that_is_all_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ended(connection: HttpConnection, _seconds: float) -> None:
        connection.close()
        raise ConnectionClosedEarly

    monkeypatch.setattr(HttpConnection, "sleep", ended)
    with site_of([PAGE]) as site:
        [event] = events_of(site, 1, ahead_s=0.1)
    assert isinstance(event, Failure)
    assert event.error == CLOSED_EARLY


def test_a_kept_connection_has_to_last_until_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken ahead of that: what is too long by then is too long."""
    ahead: list[float] = []

    def noted(_pool: Pool, _origin: str, ahead_s: float = 0.0) -> HttpConnection | None:
        ahead.append(ahead_s)
        raise RunOver

    monkeypatch.setattr(Pool, "take", noted)
    monkeypatch.setattr(Openings, "ahead_s", lambda *_: 60.0)
    with site_of([PAGE]) as site:
        events_of(site, 1, ahead_s=30)
    [ahead_s] = ahead
    assert 0 < ahead_s <= 30


def test_a_408_on_a_new_connection_is_an_answer() -> None:
    """The site has not waited: it says that of our request."""
    with site_of([WAITED]) as site:
        events = events_of(site, 2)
    assert [event.status_code for event in events if isinstance(event, Answer)] == [408, 408]


def test_a_408_that_keeps_its_connection_is_an_answer() -> None:
    """It has not given the connection up."""
    with site_of([PAGE, WAITED.replace(b"Connection: close\r\n", b"")]) as site:
        events = events_of(site, 2)
    assert [event.status_code for event in events if isinstance(event, Answer)] == [200, 408]
