"""Requests that are larger than what a socket takes at once, at sites that do not read all of them."""

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from functools import partial

import pytest
import trustme
import uvloop

from tests.cases import for_each
from tests.unit.wire.pairs import pair
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.fetcher.wire.connection import ConnectionHolder, HttpConnection, WireState
from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.tls import Tls

BODY = bytes(range(256)) * 2**14  # 4 MiB, more than the kernel takes for both ends
REQUEST = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
TOO_LARGE = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
LINGER_0 = struct.pack("ii", 1, 0)


class Unbounded:
    """Memory without an end."""

    def may_go_on(self, _reader: AnswerReader, _go_on: Callable[[], None]) -> bool:
        return True


class Late:
    """Memory that has no room until it is given some, from another thread."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.give: Callable[[], object] = lambda: None

    def may_go_on(self, _reader: AnswerReader, go_on: Callable[[], None]) -> bool:
        if self.is_asked.is_set():
            return True
        self.give = partial(asyncio.get_running_loop().call_soon_threadsafe, go_on)
        self.is_asked.set()
        return False


def outcome(
    serve: Callable[[socket.socket], None],
    *,
    tls: bool = False,
    memory: ConnectionHolder | None = None,
    has_answer: threading.Event | None = None,
) -> tuple[AnswerReader, Exception | None, str]:
    """Send the request to a site that does this; returns its answer, how it failed, and the state afterwards.

    `has_answer` is set when the client has its answer.
    """
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)

    def serving(site: socket.socket) -> None:
        # Otherwise what it sent last may wait until what it sent before is acknowledged (Nagle), and a reset, or a
        # close with something unread, which resets, discards it.
        site.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with theirs.wrap_socket(site, server_side=True) if tls else site as opened:
                serve(opened)
        except OSError as error:  # the client has closed the connection
            print(f"the site: {error!r}")  # for a test that fails

    async def act() -> tuple[AnswerReader, Exception | None, str]:
        connection, site = pair(opens=False)
        thread = threading.Thread(target=serving, args=(site,))
        thread.start()
        if tls:
            await connection.secure(Tls(ours, "127.0.0.1"), Handshakes(asyncio.get_running_loop()))
        connection.open()
        reader, error = AnswerReader(1_000), None
        connection.send(connection.prepare(REQUEST), reader, memory or Unbounded())
        try:
            await asyncio.wait_for(connection.answer(), 20)
        except Exception as failed:  # noqa: BLE001  it is returned
            error = failed
        if has_answer:
            has_answer.set()
        state = _state(connection, reader)
        connection.close()
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        return reader, error, state

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(act())


def _state(connection: HttpConnection, reader: AnswerReader) -> str:
    return "kept" if connection.state is WireState.DONE and reader.keeps_alive else "not kept"


@pytest.mark.parametrize("tls", [False, True])
def test_a_large_request_arrives_whole(tls: bool) -> None:
    """What the socket does not take at once follows as the site reads; the connection is kept."""
    got = bytearray()

    def serve(site: socket.socket) -> None:
        while len(got) < len(REQUEST):
            got.extend(site.recv(100_000))
        site.sendall(PAGE)
        site.recv(1)

    reader, error, state = outcome(serve, tls=tls)
    assert (reader.status_code, bytes(reader.body), error, state) == (200, b"page", None, "kept")
    assert bytes(got) == REQUEST


def reads_on(site: socket.socket, has_answer: threading.Event) -> None:
    site.sendall(TOO_LARGE)
    assert has_answer.wait(20)
    while site.recv(100_000):
        pass


def closes(site: socket.socket, _: threading.Event) -> None:
    site.sendall(TOO_LARGE)


def resets(site: socket.socket, _: threading.Event) -> None:
    site.sendall(TOO_LARGE)
    site.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)


def half_closes(site: socket.socket, _: threading.Event) -> None:
    site.sendall(TOO_LARGE)
    site.shutdown(socket.SHUT_WR)
    site.recv(1)


EARLY = [(serve, tls) for serve in (reads_on, closes, resets) for tls in (False, True)]


@pytest.mark.parametrize(("serve", "tls"), [*EARLY, (half_closes, False)])
def test_an_answer_before_the_whole_request_was_read_counts(
    serve: Callable[[socket.socket, threading.Event], None], tls: bool
) -> None:
    """Such as a 413, or a 401: whether the site reads on, or closes the connection. It carries no other request."""
    has_answer = threading.Event()

    def reads_a_little(site: socket.socket) -> None:
        site.recv(1_000)
        serve(site, has_answer)

    reader, error, state = outcome(reads_a_little, tls=tls, has_answer=has_answer)
    assert (repr(error), reader.status_code, bytes(reader.body), state) == ("None", 413, b"no", "not kept")


def test_an_answer_that_waits_for_memory_is_read_though_the_request_cannot_be_written() -> None:
    """The site has answered, and reset the connection; the rest of its answer is there, and no more is taken."""
    memory = Late()

    def serve(site: socket.socket) -> None:
        site.recv(1_000)
        site.sendall(TOO_LARGE[:-1])
        assert memory.is_asked.wait(20)
        site.sendall(TOO_LARGE[-1:])
        site.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        site.close()
        memory.give()

    reader, error, _ = outcome(serve, memory=memory)
    assert (repr(error), reader.status_code, bytes(reader.body)) == ("None", 413, b"no")


@for_each("is_reset", [False, True])
def test_a_site_that_closes_without_an_answer_has_ended_the_request(is_reset: bool) -> None:
    """However it closes: that is no answer, and no deadlock."""

    def serve(site: socket.socket) -> None:
        site.recv(1_000)
        if is_reset:
            site.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)

    reader, error, _ = outcome(serve)
    assert not reader.has_begun
    assert error is not None
