"""The resolver: only permitted addresses are connected to, and hosts whose name servers hang hold up no others."""

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.waiting import wait_for
from weir.conf.texts.networks import networks
from weir.workers.fetches.addresses import AddressRefused, Allowed
from weir.workers.fetches.fetcher.http import descriptors, lookup_shares, resolver
from weir.workers.fetches.fetcher.http.faults import LookupTimedOut
from weir.workers.fetches.fetcher.http.lookup_shares import NotLookedUp
from weir.workers.fetches.fetcher.http.resolver import GuardedResolver


def resolve(monkeypatch: pytest.MonkeyPatch, answers: list[str], *allowed: str) -> list[str]:
    """Resolve a name for which the system's resolver, the outermost edge, gives these answers."""

    def getaddrinfo(_host: str, port: int, **_options: Any) -> list[tuple[Any, ...]]:
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in a], socket.SOCK_STREAM, 6, "", (a, port)) for a in answers]

    async def ask() -> list[str]:
        resolver = GuardedResolver(allowed=Allowed(networks=networks(allowed)), timeout_s=5)
        try:
            return [str(sockaddr[0]) for *_, sockaddr in await resolver.resolve("site.example", 80)]
        finally:
            resolver.close()

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asyncio.run(ask())


def test_only_permitted_answers_of_the_resolver_are_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with public and private addresses is fetched from the public ones alone."""
    answers = ["10.0.0.1", "93.184.215.14", "::1", "2606:4700:4700::1111", "::ffff:127.0.0.1"]
    assert resolve(monkeypatch, answers) == ["93.184.215.14", "2606:4700:4700::1111"]


def test_a_name_with_private_addresses_alone_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names the host and the address that it resolves to."""
    with pytest.raises(AddressRefused, match=r"site\.example resolves to 10\.0\.0\.1 is private"):
        resolve(monkeypatch, ["10.0.0.1"])


def test_an_allowed_answer_of_the_resolver_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exempted networks are exempted for names too."""
    assert resolve(monkeypatch, ["127.0.0.1", "10.0.0.1"], "127.0.0.0/8") == ["127.0.0.1"]


class NameServer:
    """In place of the system's resolver, the outermost edge: it hangs for hosts that begin with "hangs", until told."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.asked: list[str] = []
        self.began = threading.Semaphore(0)

    def getaddrinfo(self, host: str, port: int | None, **_options: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        self.began.release()
        if host.startswith("hangs"):
            self.told.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port or 0))]


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """Return the name server that the system's resolver asks."""
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.getaddrinfo)
    yield server
    server.told.set()


@contextmanager
def asking(**options: Any) -> Iterator[GuardedResolver]:
    """Yield a resolver whose time-out is short."""
    resolver = GuardedResolver(allowed=Allowed(), **{"timeout_s": 0.4, **options})
    try:
        yield resolver
    finally:
        resolver.close()


def in_time(condition: Callable[[], bool]) -> None:
    wait_for(condition, 10, "what the loop does meanwhile", every_s=0.01)


async def looked_up(resolver: GuardedResolver, *hosts: str) -> list[Any]:
    """Look all of them up at once; returns the first address of each, or the error."""
    found = await asyncio.gather(*(resolver.resolve(host, 80) for host in hosts), return_exceptions=True)
    return [each if isinstance(each, BaseException) else each[0][4][0] for each in found]


def test_a_name_server_that_hangs_is_given_up(name_server: NameServer) -> None:
    """No answer within the deadline is an error that says so, for as long as the name server hangs."""

    async def ask() -> None:
        resolver = GuardedResolver(allowed=Allowed(), timeout_s=0.05)
        try:
            await resolver.resolve("hangs.example", 80)
        finally:
            name_server.told.set()
            resolver.close()

    with pytest.raises(OSError, match=r"no answer from DNS for hangs\.example within 0\.05 s"):
        asyncio.run(ask())


def test_hosts_whose_name_servers_hang_do_not_stop_others(name_server: NameServer) -> None:
    """The threads that wait for a hundred of them leave enough to others, during the time-out and after it."""

    async def ask() -> None:
        resolver = GuardedResolver(allowed=Allowed(), timeout_s=1)
        hanging = asyncio.create_task(looked_up(resolver, *(f"hangs-{number}.example" for number in range(100))))
        assert await looked_up(resolver, "good.example") == ["93.184.215.14"]
        assert {type(error) for error in await hanging} == {LookupTimedOut}
        assert await looked_up(resolver, "good.example") == ["93.184.215.14"]
        name_server.told.set()
        resolver.close()

    asyncio.run(ask())


def test_a_host_has_one_lookup_at_a_time(name_server: NameServer) -> None:
    """A fetch that asks while one goes on waits for that one, up to the time-out; after its end there is a new one."""

    async def ask() -> None:
        patient, hasty = (GuardedResolver(allowed=Allowed(), timeout_s=seconds) for seconds in (20, 0.05))
        for _ in range(3):
            [error] = await looked_up(hasty, "hangs.example")
            assert "no answer from DNS" in str(error)
        assert name_server.asked == ["hangs.example"], "given up, but still in its thread"
        name_server.began.acquire()
        together = asyncio.create_task(looked_up(patient, "hangs.example", "hangs.example"))
        await asyncio.to_thread(name_server.began.acquire)
        name_server.told.set()
        assert await together == ["93.184.215.14"] * 2
        assert name_server.asked == ["hangs.example"] * 2
        assert await looked_up(patient, "hangs.example") == ["93.184.215.14"]
        assert name_server.asked == ["hangs.example"] * 2, "its answers count for a while"
        patient._kept.clear()
        assert await looked_up(patient, "hangs.example") == ["93.184.215.14"]
        assert name_server.asked == ["hangs.example"] * 3
        patient.close()
        hasty.close()

    asyncio.run(ask())


def test_a_lookup_that_got_no_thread_is_not_held_against_the_site(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where other hosts' lookups have all threads until the time-out, the error says that there was none."""
    monkeypatch.setattr(lookup_shares, "MOST_LOOKUPS", 1)

    async def ask() -> None:
        resolver = GuardedResolver(allowed=Allowed(), timeout_s=0.2)
        errors = await looked_up(resolver, "hangs.example", "good.example")
        assert [type(error) for error in errors] == [LookupTimedOut, NotLookedUp]
        name_server.told.set()
        resolver.close()

    asyncio.run(ask())


def test_a_lookup_that_was_given_up_fails_unheard(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No fetch waits for it any more: its end is no error, and not logged as one."""

    def fail(host: str, *_arguments: Any, **_options: Any) -> None:
        name_server.getaddrinfo(host, None)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    async def ask() -> None:
        resolver = GuardedResolver(allowed=Allowed(), timeout_s=0.05)
        [error] = await looked_up(resolver, "hangs.example")
        assert "no answer from DNS" in str(error)
        name_server.told.set()
        await asyncio.wait([lookup.answers for lookup in resolver._lookups.values()])
        resolver.close()

    asyncio.run(ask())
    gc.collect()
    ours = [record.message for record in caplog.records if not record.name.startswith("opentelemetry")]
    assert ours == []  # the exporter of an earlier test may still look its collector up, by what this one patches


def test_a_zone_that_hangs_holds_up_no_other_name(name_server: NameServer) -> None:
    """1,500 of its names take a few threads, and wait for the time-out at most; after that each is told at once.

    Also where the loop was held up meanwhile.
    """

    async def ask() -> None:
        with asking() as resolver:
            names = [f"hangs-{number}.dead.example" for number in range(1_500)]
            hanging = asyncio.create_task(looked_up(resolver, *names))
            assert await looked_up(resolver, "good.example") == ["93.184.215.14"]
            assert not hanging.done()
            asyncio.get_running_loop().call_later(0.05, time.sleep, 0.2)  # whatever else the loop is busy with
            errors = await hanging
            assert {type(error) for error in errors} <= {LookupTimedOut, NotLookedUp}
            assert len(name_server.asked) < 20
            before = asyncio.get_running_loop().time()
            again = await looked_up(resolver, *names[:500])
            assert {type(error) for error in again} == {LookupTimedOut}, "each has its site's fault now"
            assert asyncio.get_running_loop().time() - before < 0.3
            assert len(name_server.asked) < 20
            name_server.told.set()

    asyncio.run(ask())


def test_500_zones_that_hang_hold_up_no_name_that_was_found(name_server: NameServer) -> None:
    """While they hang, and when their names are asked for again and again."""

    async def ask() -> None:
        with asking() as resolver:
            assert await looked_up(resolver, "good.example") == ["93.184.215.14"]
            names = [f"hangs.dead-{number}.example" for number in range(500)]
            for _ in range(3):
                hanging = asyncio.create_task(looked_up(resolver, *names))
                assert await looked_up(resolver, "good.example") == ["93.184.215.14"]
                assert {type(error) for error in await hanging} <= {LookupTimedOut, NotLookedUp}
            name_server.told.set()

    asyncio.run(ask())


def test_a_look_up_without_an_answer_has_controls_asked(name_server: NameServer) -> None:
    """By them, the name servers have answered, though no fetch asks for another name any more."""
    answers: list[None] = []

    async def ask() -> None:
        with asking(answered=lambda: answers.append(None)) as resolver:
            await looked_up(resolver, "www.good.example", "www.fine.example")
            assert len(answers) == 2
            await looked_up(resolver, "hangs.dead.example")
            await asyncio.to_thread(in_time, lambda: len(answers) == 4)
            assert set(name_server.asked[-2:]) == {"www.good.example", "www.fine.example"}
            name_server.told.set()

    asyncio.run(ask())


def test_fetches_wait_in_bounded_number(name_server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many wait, the next ones are given back at once: as they hold room that others need."""
    monkeypatch.setattr(resolver, "MOST_WAITING", 5)

    async def ask() -> None:
        with asking() as resolver:
            first = asyncio.create_task(looked_up(resolver, *["hangs.example"] * 5))
            await asyncio.to_thread(
                in_time, lambda: [lookup.is_slow for lookup in resolver._lookups.values()] == [True]
            )
            assert [type(error) for error in await looked_up(resolver, "hangs.example")] == [NotLookedUp]
            assert not first.done()
            assert await looked_up(resolver, "good.example") == ["93.184.215.14"]
            assert {type(error) for error in await first} == {LookupTimedOut}
            name_server.told.set()

    asyncio.run(ask())


def test_the_answers_of_a_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4,000 addresses the first are tried, and not all are looked at: a name server may send as many as it likes."""
    answers = ["10.0.0.1", *(f"93.184.{number // 250}.{number % 250}" for number in range(4_000))]
    assert resolve(monkeypatch, answers) == answers[1 : 1 + resolver.MOST_ADDRESSES]


def test_of_many_answers_both_families_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come first of a family that this host may not reach; those of each stay in their order."""
    first = [f"2606:4700::{number:x}" for number in range(1, 100)]
    other = ["93.184.215.14", "93.184.215.15"]
    tried = resolve(monkeypatch, [*first, *other])
    assert tried[:4] == [first[0], other[0], first[1], other[1]]
    assert tried[4:] == first[2 : resolver.MOST_ADDRESSES - 2]


def test_a_look_up_leaves_nothing_to_the_garbage_collector(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it ends: the collector stops the loop, so a fetcher runs it seldom."""

    def answer(host: str, *_arguments: Any, **_options: Any) -> list[tuple[Any, ...]]:
        if host.startswith("fails"):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return name_server.getaddrinfo(host, None)

    monkeypatch.setattr(socket, "getaddrinfo", answer)

    async def ask() -> None:
        with asking(timeout_s=0.1) as resolver:
            for kind in ("good", "fails", "hangs"):
                await looked_up(resolver, *[f"{kind}-{number}.{kind}.example" for number in range(30)] * 2)
            name_server.told.set()
            await asyncio.to_thread(in_time, lambda: not resolver._lookups)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(ask())
        assert not [each for each in gc.get_objects() if isinstance(each, resolver.Lookup)]
    finally:
        gc.enable()


def test_look_ups_leave_descriptors_to_fetches(name_server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a socket: where the limit is 1,024, so many zones that hang take a quarter."""
    monkeypatch.setattr(descriptors, "_limit", lambda: 1_024)

    async def ask() -> None:
        with asking() as resolver:
            hanging = asyncio.create_task(looked_up(resolver, *(f"hangs.dead-{each}.example" for each in range(600))))
            assert {type(error) for error in await hanging} <= {LookupTimedOut, NotLookedUp}
            assert 100 < len(name_server.asked) <= 1_024 * descriptors.LOOKUPS
            name_server.told.set()

    asyncio.run(ask())


def test_a_fetcher_that_stood_still_blames_no_zone(name_server: NameServer) -> None:
    """Beyond the time-out: the answers came meanwhile, or come as it goes on, and count as such."""

    async def ask() -> None:
        with asking(timeout_s=1.5) as resolver:
            names = [f"hangs-{number}.good.example" for number in range(8)]
            waiting = asyncio.create_task(looked_up(resolver, *names))
            for _ in names:
                await asyncio.to_thread(name_server.began.acquire)
            threading.Timer(1.75, name_server.told.set).start()
            time.sleep(1.7)  # noqa: ASYNC251  the whole process stands still
            await waiting
            again = await looked_up(resolver, *(f"www-{number}.good.example" for number in range(60)))
            assert again == ["93.184.215.14"] * 60

    asyncio.run(ask())
