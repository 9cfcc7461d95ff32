"""Records of TLS: however a site cuts its answer into them, and whatever else it sends, reading takes little time."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import uvloop

from tests.proportion import proportion, spent_s
from tests.unit.wire.pairs import pair, until
from tests.unit.wire.test_connection import Unbounded, request
from tests.unit.wire.tls_sites import ALERT, HANDSHAKE, TEXT, TICKET, Records, plain_pair, secured_pair
from weir.workers.fetches.fetcher.wire import channel
from weir.workers.fetches.fetcher.wire.answers import AnswerReader, AnswerTooLarge
from weir.workers.fetches.fetcher.wire.channel import MOST_OF_HANDSHAKE, MOST_REPLY, MOST_SILENT, MOST_SMALL, READ
from weir.workers.fetches.fetcher.wire.connection import ConnectionClosedEarly, WireState
from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.tls import RECORD, Tls, context

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def answered(written: Callable[[Records], bytes]) -> tuple[AnswerReader, Exception | None, float]:
    """Let a site write these records for an answer; returns what came of it, and the time of the loop's thread."""

    async def act() -> tuple[AnswerReader, Exception | None, float]:
        connection, site, records = await secured_pair()
        answer, error = written(records), None
        reader = request(connection, Unbounded(), 5 * 2**20)
        site.setblocking(True)
        writing = threading.Thread(target=lambda: _send(site.sendall, answer))
        writing.start()
        began_at = time.thread_time()
        try:
            await asyncio.wait_for(connection.answer(), 60)
        except AnswerTooLarge as large:
            error = large
        took_s = time.thread_time() - began_at
        connection.close()
        writing.join()
        site.close()
        return reader, error, took_s

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(act())


def plainly_s(written: Callable[[Records], bytes]) -> float:
    """Return the time that Python's ssl takes to read these records."""
    reader, incoming, records = plain_pair()
    data = written(records)

    def read() -> None:
        for start in range(0, len(data), READ):
            incoming.write(data[start : start + READ])
            with suppress(ssl.SSLWantReadError):
                while reader.read(RECORD):
                    pass

    return spent_s(read)


def _send(send: Callable[[bytes], object], data: bytes) -> None:
    with suppress(OSError):  # it is closed meanwhile
        send(data)


def with_silent(records: Records, silent: Callable[[], bytes], number: int) -> bytes:
    """Return an answer in whose middle so many records say nothing."""
    begun = records.record(HEAD % 4 + b"pa")
    return begun + b"".join(silent() for _ in range(number)) + records.record(b"ge")


SILENT: dict[str, Callable[[Records], Callable[[], bytes]]] = {
    "tickets": lambda records: lambda: records.record(TICKET, HANDSHAKE),
    "full of tickets": lambda records: lambda: records.record(TICKET * (RECORD // len(TICKET)), HANDSHAKE),
    "new keys": lambda records: records.new_keys,
}


@pytest.mark.parametrize("what", SILENT)
def test_records_that_say_nothing_are_counted(what: str) -> None:
    """A few come beside an answer; more than that end it, before they take long."""
    reader, error, _ = answered(lambda records: with_silent(records, SILENT[what](records), MOST_SILENT))
    assert (bytes(reader.body), error) == (b"page", None)

    def read_s() -> float:
        _, error, took_s = answered(lambda records: with_silent(records, SILENT[what](records), 5_000))
        assert isinstance(error, AnswerTooLarge)
        return took_s

    assert proportion(read_s, lambda: plainly_s(lambda records: until_counted(SILENT[what](records))), 2.5) < 2.5


def until_counted(silent: Callable[[], bytes]) -> bytes:
    """Return as many records as are read before they are too many: MOST_SILENT, or those that two reads bring."""
    data = b"".join(silent() for _ in range(MOST_SILENT))
    while len(data) < 2 * READ:
        data += silent()
    return data


@pytest.mark.parametrize(
    "behind", [lambda records: records.record(b"\x02\x50", ALERT), lambda _: b"\x17\x03\x03\x00\x20" + bytes(32)]
)
@pytest.mark.parametrize(("length", "error"), [(4, type(None)), (5, ssl.SSLError)])
def test_what_came_before_an_error_of_tls_is_read(length: int, error: type, behind: Callable[[Records], bytes]) -> None:
    """An alert, or a record that is none, may come with the end of an answer: that is whole, or has what came."""
    reader, failed = asyncio.run(failing(lambda records: records.record(HEAD % length + b"page") + behind(records)))
    assert (bytes(reader.body), type(failed)) == (b"page", error)


async def failing(written: Callable[[Records], bytes]) -> tuple[AnswerReader, Exception | None]:
    """Let a site write these records for an answer, at once; returns what came of it."""
    connection, site, records = await secured_pair()
    reader = request(connection, Unbounded())
    site.sendall(written(records))
    try:
        await asyncio.wait_for(connection.answer(), 10)
    except ssl.SSLError as error:
        return reader, error
    finally:
        connection.close()
        site.close()
    return reader, None


def test_an_answer_in_records_of_one_byte_is_read() -> None:
    """Some servers flush each piece that a page is made of."""
    size = 5_000
    reader, error, _ = answered(
        lambda records: b"".join(records.record(bytes([byte])) for byte in HEAD % size + b"x" * size)
    )
    assert (len(reader.body), error) == (size, None)


def test_an_answer_in_very_many_small_records_has_an_end() -> None:
    """Each takes as long as one of full size; so there are MOST_SMALL, and as many as its length explains."""
    size = 2 * MOST_SMALL

    def read_s() -> float:
        reader, error, took_s = answered(lambda records: records.record(HEAD % size) + small(records, size))
        assert isinstance(error, AnswerTooLarge)
        assert len(reader.body) > MOST_SMALL / 2
        return took_s

    assert proportion(read_s, lambda: plainly_s(lambda records: small(records, MOST_SMALL)), 5) < 5


def small(records: Records, number: int) -> bytes:
    return b"".join(records.record(b"x") for _ in range(number))


def test_small_records_are_read_in_turn() -> None:
    """As small chunks are: many answers of that kind do not take the loop."""

    async def act() -> None:
        connection, site, records = await secured_pair()
        request(connection, Unbounded(), 5 * 2**20)
        reading = asyncio.ensure_future(connection.answer())
        await asyncio.get_running_loop().sock_sendall(
            site, records.record(HEAD % 100_000) + b"".join(records.record(b"x") for _ in range(4_000))
        )
        # Between two of its turns, it may be found waiting for the site.
        await until(lambda: connection._open_channel.is_costly and connection._slow_reads._is_coming)
        site.close()
        connection.close()
        with suppress(asyncio.CancelledError):
            reading.cancel()
            await reading

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(act(), 20))


@pytest.mark.parametrize("what", SILENT)
def test_before_the_request_too_much_that_says_nothing_closes_the_connection(what: str) -> None:
    """Nothing is sent; a ticket alone is no matter."""

    async def act() -> None:
        for number, closes in ((1, False), (MOST_SILENT + 1, True)):
            connection, site, records = await secured_pair()
            silent = SILENT[what](records)
            site.sendall(b"".join(silent() for _ in range(number)))
            if closes:
                await until(lambda: connection.state is WireState.CLOSED)  # noqa: B023  it is awaited here
            else:
                await connection.sleep(0.05)
                connection.prepare(b"GET / HTTP/1.1\r\n\r\n")
            connection.close()
            site.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(act(), 20))


def test_an_alert_before_the_request_is_told() -> None:
    """A site that wants a certificate of ours says so when the handshake is over, by TLS 1.3."""

    async def act() -> None:
        connection, site, records = await secured_pair()
        site.sendall(records.record(b"\x02\x74", ALERT))
        with pytest.raises(ConnectionClosedEarly, match=r"TLS failed: .*CERTIFICATE_REQUIRED"):
            await connection.sleep(10)
        site.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(act())


def test_an_answer_before_the_request_closes_the_connection_by_tls_as_well() -> None:
    """Nobody has asked for it."""

    async def act() -> None:
        connection, site, records = await secured_pair()
        site.sendall(records.record(HEAD % 0, TEXT))
        with pytest.raises(ConnectionClosedEarly):
            connection.prepare(b"GET / HTTP/1.1\r\n\r\n")
        site.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(act())


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many bytes each read brings, of which few are many."""
    sizes: list[int] = []
    receive = Tls.receive

    def counted(tls: Tls, data: memoryview) -> None:
        sizes.append(len(data))
        receive(tls, data)

    monkeypatch.setattr(channel, "MANY_READS", 10)
    monkeypatch.setattr(Tls, "receive", counted)
    return sizes


async def _byte_by_byte(site: socket.socket, data: bytes) -> None:
    site.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    site.setblocking(True)
    for byte in data:
        site.sendall(bytes([byte]))
        await asyncio.sleep(0)


def test_a_record_that_comes_byte_by_byte_is_gathered_by_the_kernel(received: list[int]) -> None:
    """Its bytes say nothing before the last one has come, and are read in a bounded number of turns all the same."""

    async def act() -> None:
        connection, site, records = await secured_pair()
        received.clear()
        reader = request(connection, Unbounded(), 10_000)
        reading = asyncio.ensure_future(connection.answer())
        await _byte_by_byte(site, records.record(HEAD % 3_000 + b"x" * 3_000))
        await reading
        assert len(reader.body) == 3_000
        connection.close()
        site.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(act(), 20))
    assert len(received) < 500


def test_a_handshake_that_comes_byte_by_byte_is_gathered_by_the_kernel(received: list[int]) -> None:
    """However long it is, and though no answer has begun."""

    async def act() -> None:
        connection, site = pair(opens=False)
        shaking = asyncio.ensure_future(
            connection.secure(Tls(context(), "127.0.0.1"), Handshakes(asyncio.get_running_loop()))
        )
        await _byte_by_byte(site, b"\x16\x03\x03\x40\x00" + bytes(3_000))
        site.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError, match="closed the connection"):
            await shaking
        connection.close()
        site.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(act(), 20))
    assert 0 < len(received) < 500


def test_a_handshake_has_an_end() -> None:
    """However much a site says in it, it is not read until the time-out."""

    class Endless(Tls):
        """A handshake that asks for more whatever has come."""

        def shake(self) -> bool:
            return False

    async def act() -> None:
        connection, site = pair(opens=False)
        site.setblocking(False)
        shaking = asyncio.ensure_future(
            connection.secure(Endless(context(), "127.0.0.1"), Handshakes(asyncio.get_running_loop()))
        )
        writing = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(site, bytes(100 * MOST_OF_HANDSHAKE)))
        with pytest.raises(ConnectionResetError, match="too much for a TLS handshake"):
            await shaking
        writing.cancel()
        await asyncio.wait([writing])
        connection.close()
        site.close()

    asyncio.run(asyncio.wait_for(act(), 20))


def test_a_site_that_has_tls_answer_again_and_again_is_given_up() -> None:
    """By TLS 1.2, one record may ask 4,000 times for a new handshake; each refusal would wait for it to be read."""

    class Talkative(Tls):
        """It has much to say to whatever comes, once it has begun."""

        talks = False

        def shake(self) -> bool:
            return True

        def write(self, text: bytes) -> bytes:
            return text

        def read(self) -> bytes:
            return b""

        def to_send(self) -> bytes:
            return b"x" * (MOST_REPLY + 1) * self.talks

    async def act() -> None:
        connection, site = pair(opens=False)
        tls = Talkative(context(), "127.0.0.1")
        await connection.secure(tls, Handshakes(asyncio.get_running_loop()))
        connection.open()
        request(connection, Unbounded())
        tls.talks = True
        site.sendall(b"x")
        with pytest.raises(AnswerTooLarge):
            await connection.answer()
        assert connection.state is WireState.CLOSED
        site.close()

    asyncio.run(asyncio.wait_for(act(), 20))
