"""Connections: what comes while no request is written closes them, and how an answer ends."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trustme
import uvloop

from tests.cases import for_each
from tests.unit.wire.pairs import pair, until
from weir.workers.fetches.fetcher.wire import channel
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.fetcher.wire.connection import (
    FOLLOWING,
    SLOW_READ_EVERY_S,
    ConnectionClosedEarly,
    ConnectionEnded,
    ConnectionHolder,
    HttpConnection,
    WireState,
)
from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.pool import Pool
from weir.workers.fetches.fetcher.wire.tls import Tls, context
from weir.workers.fetches.fetcher.wire.turns import Turns

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
UNTIL_END = b"HTTP/1.1 200 OK\r\n\r\npage"
LINGER_0 = struct.pack("ii", 1, 0)


class Unbounded:
    """Memory without an end."""

    def may_go_on(self, _reader: AnswerReader, _go_on: Callable[[], None]) -> bool:
        return True


def run(act: Callable[[HttpConnection, socket.socket], Awaitable[None]]) -> None:
    """Do this with a connection that waits for a request, and with its other end."""

    async def running() -> None:
        connection, site = pair()
        with site:
            await asyncio.wait_for(act(connection, site), 10)
        connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running())


async def asked(connection: HttpConnection, site: socket.socket, answer: bytes) -> AnswerReader:
    """Send a request that is answered so."""
    reader = request(connection, Unbounded())
    site.sendall(answer)
    await connection.answer()
    return reader


def request(connection: HttpConnection, memory: ConnectionHolder, most_body: int = 1_000) -> AnswerReader:
    """Send a request; returns the reader of its answer."""
    reader = AnswerReader(most_body)
    connection.send(connection.prepare(b"GET / HTTP/1.1\r\n\r\n"), reader, memory)
    return reader


def reset(site: socket.socket) -> None:
    site.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
    site.close()


UNASKED: dict[str, Callable[[socket.socket], object]] = {
    "an answer": lambda site: site.sendall(PAGE),
    "an interim answer": lambda site: site.sendall(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "an empty line": lambda site: site.sendall(b"\r\n"),
    "a byte": lambda site: site.sendall(b"x"),
    "the end": lambda site: site.shutdown(socket.SHUT_WR),
    "a reset": reset,
}
SAID = {
    "an answer": r"it says b'HTTP/1\.1 200 OK\\r\\nCon'",
    "an interim answer": r"it says b'HTTP/1\.1 100 Continu'",
    "an empty line": r"it says b'\\r\\n'",
    "a byte": "it says b'x'",
    "the end": "^$",
    "a reset": "Connection reset by peer",
}


@for_each("is_reused", [False, True])
@for_each("what", UNASKED)
def test_what_comes_while_it_waits_for_a_slot_closes_it(what: str, is_reused: bool) -> None:
    """On a new connection and on one that has carried a request: nothing is sent, nothing is taken for an answer."""

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        if is_reused:
            await asked(connection, site, PAGE)
            connection.keep(lambda: None)
            connection.take()
        UNASKED[what](site)
        for _ in range(2):  # the loop has not looked since, `prepare` does
            with pytest.raises(ConnectionClosedEarly, match=SAID[what]):
                connection.prepare(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.state is WireState.CLOSED

    run(act)


@for_each("what", UNASKED)
def test_what_comes_while_it_is_idle_takes_it_out_of_the_pool(what: str) -> None:
    """The next request gets another connection."""

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        await asked(connection, site, PAGE)
        pool = Pool(asyncio.get_running_loop())
        pool.give_back(("http://site.example", ""), connection)
        assert connection.state is WireState.IDLE
        UNASKED[what](site)
        await until(lambda: connection.state is WireState.CLOSED)
        assert pool.take(("http://site.example", "")) is None

    run(act)


def test_a_sleep_ends_as_soon_as_the_connection_does() -> None:
    """So another one may be opened while the slot lasts."""

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        asyncio.get_running_loop().call_later(0.01, site.close)
        with pytest.raises(ConnectionClosedEarly):
            await connection.sleep(60)

    run(act)


ENDS: dict[str, tuple[bytes, Callable[[socket.socket], object], type[Exception] | None]] = {
    "a body until the end, which comes": (UNTIL_END, socket.socket.close, None),
    "a body until the end, which is reset": (UNTIL_END, reset, ConnectionResetError),
    "a body with a length, and the end": (PAGE[:-1], socket.socket.close, ConnectionEnded),
    "a body with a length, and a reset": (PAGE[:-1], reset, ConnectionResetError),
    "no answer, and the end": (b"", socket.socket.close, ConnectionEnded),
    "half a head, and the end": (PAGE[:20], socket.socket.close, ConnectionEnded),
}


@for_each("what", ENDS)
def test_how_a_connection_ends_tells_whether_the_answer_is_whole(what: str) -> None:
    """A reset cuts it off, however its end is marked; what came until then is there."""
    answer, end, error = ENDS[what]

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        reader = request(connection, Unbounded())
        site.recv(1_000)  # what is unread would make a reset of each end
        site.sendall(answer)
        reading = asyncio.ensure_future(connection.answer())
        await until(lambda: reader.has_begun or not answer)
        end(site)
        if error is None:
            await reading
        else:
            with pytest.raises(error):
                await reading
        assert connection.state is WireState.CLOSED
        assert bytes(reader.body) == answer.partition(b"\r\n\r\n")[2]

    run(act)


RESETS: dict[str, tuple[bytes, type[Exception] | None]] = {
    "a whole body": (b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000, None),
    "a part of a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 20001\r\n\r\n" + b"x" * 20_000, ConnectionResetError),
    "a body until the end": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000, ConnectionResetError),
    "few bytes": (PAGE[:-1], ConnectionResetError),
}


@pytest.mark.parametrize("what", RESETS)
def test_what_came_before_a_reset_is_read_and_then_the_reset(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are there when the loop looks: it tells of a reset once, however many reads lie before it."""
    monkeypatch.setattr(channel, "_buffer", memoryview(bytearray(1_000)))
    answer, error = RESETS[what]

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        reader = request(connection, Unbounded(), 50_000)
        site.recv(1_000)
        site.sendall(answer)
        reset(site)
        if error is None:
            await connection.answer()
        else:
            with pytest.raises(error):
                await connection.answer()
        assert bytes(reader.body) == answer.partition(b"\r\n\r\n")[2]

    run(act)


def test_a_connection_is_read_no_further_than_memory_allows() -> None:
    """The kernel slows the site down, until there is room."""

    class Bounded:
        go_on: Callable[[], None]
        asked = 0

        def may_go_on(self, _reader: AnswerReader, go_on: Callable[[], None]) -> bool:
            self.asked, self.go_on = self.asked + 1, go_on
            return False

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        memory = Bounded()
        request(connection, memory)
        reading = asyncio.ensure_future(connection.answer())
        for place, byte in enumerate(PAGE):
            site.sendall(bytes([byte]))
            await until(lambda: reading.done() or memory.asked > place)  # noqa: B023  it is awaited here
            assert connection._open_channel.is_watched == reading.done()
            memory.go_on()
        await reading

    run(act)


def test_its_state_follows_what_has_come_of_the_answer() -> None:
    """As the drawing in the documentation has it."""
    steps = {
        b"HTTP/1.1 103 Early": WireState.HEAD,
        b" Hints\r\n\r\n": WireState.INTERIM,
        b"HTTP/1.1 200 OK\r\n": WireState.HEAD,
        b"Content-Length: 100000\r\n\r\n": WireState.BODY,
        b"x" * 50_000: WireState.BODY,
        b"y" * 50_000: WireState.DONE,
    }

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        reader = request(connection, Unbounded(), 100_000)
        reading = asyncio.ensure_future(connection.answer())
        assert connection.state is WireState.WRITTEN
        for piece, state in steps.items():
            site.sendall(piece)
            await until(lambda: connection.state is state)  # noqa: B023  it is awaited here
        await reading
        assert len(reader.body) == 100_000

    run(act)


def test_reads_that_bring_much_are_not_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many a large body takes: the kernel would let 6 MB a second through."""
    monkeypatch.setattr(channel, "MANY_READS", 10)
    waits = []
    gathered = channel.Channel._gathered

    def counted(one: channel.Channel) -> None:
        waits.append(one)
        gathered(one)

    monkeypatch.setattr(channel.Channel, "_gathered", counted)
    size = 2**23

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        site.setblocking(False)
        reader = request(connection, Unbounded(), size)
        reading = asyncio.ensure_future(connection.answer())
        await asyncio.get_running_loop().sock_sendall(
            site, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
        )
        await reading
        assert len(reader.body) == size

    run(act)
    assert len(waits) < size // channel.READ // 2


def test_small_pieces_are_gathered_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that writes byte by byte costs a bounded number of turns of the loop a second."""
    monkeypatch.setattr(channel, "MANY_READS", 10)
    reads = []
    feed = AnswerReader.feed

    def counted(reader: AnswerReader, data: memoryview) -> None:
        reads.append(len(data))
        feed(reader, data)

    monkeypatch.setattr(AnswerReader, "feed", counted)

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        site.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = request(connection, Unbounded(), 10_000)
        reading = asyncio.ensure_future(connection.answer())
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3_000:
            site.sendall(bytes([byte]))
            await asyncio.sleep(0)
        await reading
        assert len(reader.body) == 3_000

    run(act)
    assert len(reads) < 500


def test_the_states_lead_to_an_end() -> None:
    """From each, a connection can be closed, and from CLOSED nothing follows."""
    assert set(FOLLOWING) == set(WireState)
    assert [state for state in WireState if WireState.CLOSED not in FOLLOWING[state]] == [WireState.CLOSED]


def test_a_request_that_is_not_sent_whole_takes_its_connection_with_it() -> None:
    """An answer that comes before does not have the next request written into its middle."""

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        reader = AnswerReader(1_000)
        connection.send(connection.prepare(b"x" * 50_000_000), reader, Unbounded())
        site.sendall(PAGE)
        await connection.answer()
        assert (bytes(reader.body), reader.keeps_alive) == (b"page", False)

    run(act)


@for_each(
    ("begins", "goes_on"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 30_000, b"0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\nA: " + b"a" * 100_000, b"\r\n\r\n" + b"x" * 30_000),
    ],
    ids=["chunks", "heads"],
)
def test_what_costs_much_to_read_shares_a_part_of_the_loop(begins: bytes, goes_on: bytes) -> None:
    """Many answers in small chunks, or with large heads, are read one after the other, and others as they come."""

    async def act(connection: HttpConnection, site: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = request(connection, Unbounded(), 100_000)
        site.sendall(begins)
        reading = asyncio.ensure_future(connection.answer())
        while not reader.is_costly():  # noqa: ASYNC110  looked at in each turn: it may wait for one or two only
            await asyncio.sleep(0)
        assert not connection._open_channel.is_watched
        other, its_site = pair()
        with its_site:
            began_at = loop.time()
            await asked(other, its_site, PAGE)
            assert loop.time() - began_at < 1
        site.sendall(goes_on)
        await reading
        assert len(reader.body) == 30_000
        other.close()

    run(act)


def test_no_handshake_takes_long() -> None:
    """With Diffie-Hellman in a group that the site chooses, one takes half a second of the loop."""
    ciphers = [cipher["name"] for cipher in context().get_ciphers()]
    assert ciphers
    assert not [name for name in ciphers if "DHE" in name.replace("ECDHE", "")]


def test_a_record_that_came_in_part_closes_the_connection() -> None:
    """What it says would be read behind the request, though it was sent before."""
    for missing in (1, 60):
        with pytest.raises(ConnectionClosedEarly):
            asyncio.run(half_a_record(missing))


async def half_a_record(missing: int) -> None:
    """Let a record of an answer come, but for so many bytes, before the request is written."""
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)
    connection, site = pair(opens=False)
    site.setblocking(False)
    site.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = theirs.wrap_bio(incoming, outgoing, server_side=True)
    shaking = asyncio.ensure_future(connection.secure(Tls(ours, "127.0.0.1"), Handshakes(asyncio.get_running_loop())))
    is_done = False
    while not is_done or not shaking.done():
        try:
            server.do_handshake()
            is_done = True
        except ssl.SSLWantReadError:
            pass
        await loop.sock_sendall(site, outgoing.read())
        if not shaking.done():
            await asyncio.wait([shaking], timeout=0.01)
        with suppress(BlockingIOError):
            incoming.write(site.recv(10_000))
    connection.open()
    server.write(PAGE)
    record = outgoing.read()
    await loop.sock_sendall(site, record[:-missing])
    with site:
        try:
            connection.prepare(b"GET / HTTP/1.1\r\n\r\n")
        finally:
            connection.close()


def over_tls(end_well: bool) -> tuple[AnswerReader, Exception | None]:
    """Let a body that ends with its connection come by TLS, whose end is said, or is not."""
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)

    def serve(site: socket.socket) -> None:
        with theirs.wrap_socket(site, server_side=True, suppress_ragged_eofs=False) as secured:
            secured.recv(1_000)
            secured.sendall(UNTIL_END)
            if end_well:
                secured.unwrap().close()

    async def act() -> tuple[AnswerReader, Exception | None]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            opened = socket.create_connection(listener.getsockname())
            site, _ = listener.accept()
        opened.setblocking(False)
        loop = asyncio.get_running_loop()
        connection, serving = (
            HttpConnection(opened, loop, Turns(loop, every_s=SLOW_READ_EVERY_S)),
            loop.run_in_executor(None, serve, site),
        )
        await connection.secure(Tls(ours, "127.0.0.1"), Handshakes(asyncio.get_running_loop()))
        connection.open()
        await connection.sleep(0.05)  # tickets of the session come meanwhile: they are no answer
        reader, error = request(connection, Unbounded()), None
        try:
            await connection.answer()
        except ConnectionEnded as ended:
            error = ended
        connection.close()
        await asyncio.wait([serving], timeout=5)
        return reader, error

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(act())


def test_a_body_without_length_is_whole_by_tls_where_the_site_says_so() -> None:
    """Whoever is between site and fetcher can end a connection, but not say so in the site's name."""
    reader, error = over_tls(end_well=True)
    assert (bytes(reader.body), error) == (b"page", None)
    reader, error = over_tls(end_well=False)
    assert (bytes(reader.body), type(error)) == (b"page", ConnectionEnded)
