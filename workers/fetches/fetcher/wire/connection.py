"""Connections: each leads to one site, and carries one request at a time. docs/explanation/wire.md draws the states.

1. `secure` makes the handshake, if the site speaks TLS; `open` makes the connection wait for a request (WAITING).
2. `prepare` reads the bytes that have come since the loop last looked, and makes the bytes of the request. `send`
   writes these with one system call (WRITTEN). Between the two calls, the caller looks at the clock.
3. The `answer` is read (INTERIM, HEAD, BODY) until it is whole, or no more of it is read (DONE).
4. `keep` makes the connection wait in the pool (IDLE), `take` for the next request (WAITING).

Any byte that comes while no request is written (WAITING, IDLE) closes the connection, and so does the site's end. So an
answer counts only if all of it came after its request was written (RFC 9112, 9.2). What comes in the microseconds
between the last read and the write cannot be told from an answer.

On the loop's thread only.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from weir.workers.fetches.fetcher.wire.answers import AnswerReader, AnswerTooLarge, Section
from weir.workers.fetches.fetcher.wire.channel import Channel, TooManyBytes
from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.tls import Tls
from weir.workers.fetches.fetcher.wire.turns import Turns

MOST_BESIDE = 2**20  # bytes of an answer beyond twice the largest body: for heads, framing and TLS
# Seconds between two reads of answers that cost more to read, or to store, than their length explains, however many
# such answers there are. Bytes that are not read yet wait in the kernel, so the writer and PostgreSQL are spared them.
SLOW_READ_EVERY_S = 0.01
SHOWN = 20  # bytes that are shown if a site says something unasked
MOST_UNASKED = 2**15  # bytes of messages of TLS itself that may come while no request is written


class ConnectionClosedEarly(Exception):
    """The site closed the connection, or said something, before the request was written: nothing was sent.

    The message says what the site did, if it did more than close the connection.
    """


class ConnectionEnded(Exception):
    """The site ended the connection before the answer was whole."""


class WireState(Enum):
    """What a connection is doing."""

    OPENING = "opening"
    IDLE = "idle"  # in the pool
    WAITING = "waiting for its slot"
    WRITTEN = "written"  # nothing has come yet
    INTERIM = "interim"  # an answer of 1xx came
    HEAD = "head"  # a part of the head came
    BODY = "body"
    DONE = "done"
    CLOSED = "closed"


ASKED = frozenset({WireState.WRITTEN, WireState.INTERIM, WireState.HEAD, WireState.BODY})
_BEFORE_BODY = frozenset({WireState.INTERIM, WireState.HEAD, WireState.BODY, WireState.DONE, WireState.CLOSED})
FOLLOWING = {
    WireState.OPENING: frozenset({WireState.WAITING, WireState.CLOSED}),
    WireState.IDLE: frozenset({WireState.WAITING, WireState.CLOSED}),
    WireState.WAITING: frozenset({WireState.IDLE, WireState.WRITTEN, WireState.CLOSED}),
    WireState.WRITTEN: _BEFORE_BODY,
    WireState.INTERIM: _BEFORE_BODY,
    WireState.HEAD: _BEFORE_BODY,
    WireState.BODY: frozenset({WireState.BODY, WireState.DONE, WireState.CLOSED}),
    WireState.DONE: frozenset({WireState.IDLE, WireState.CLOSED}),
    WireState.CLOSED: frozenset(),
}


class ConnectionHolder(Protocol):
    """Counts the memory that answers hold."""

    def may_go_on(self, reader: AnswerReader, go_on: Callable[[], None]) -> bool:
        """Return whether more of the answer may be read now; if not, `go_on` is called when it may."""


class HttpConnection:
    """A connection to `peer`, the address to which it really leads: that of a proxy if it is `by_proxy`."""

    def __init__(
        self, opened: socket.socket, loop: asyncio.AbstractEventLoop, slow_reads: Turns, *, by_proxy: bool = False
    ) -> None:
        self.state = WireState.OPENING
        self.by_proxy = by_proxy
        self.has_carried = False  # it has carried a request: the site may be closing it just now
        self.since = loop.time()  # when it was opened, or its last answer was whole
        self.peer, self.port = opened.getpeername()[:2]
        self._loop = loop
        self._slow_reads = slow_reads
        self._channel: Channel | None = Channel(opened, loop, self._received, self._ended)
        self._on_end: Callable[[], None] | None = None  # called if the connection ends in IDLE
        self._waiter: asyncio.Future[None] | None = None  # of `sleep`
        self._reader: AnswerReader | None = None
        self._holder: ConnectionHolder | None = None
        self._whole: asyncio.Future[None] | None = None  # done when the answer is whole, or has failed
        self._early = ""  # why it was closed before a request was written

    # --- until the request is written ---

    async def tunnel(self, asked: bytes) -> None:
        """Have the proxy connect it to the site, as `asked`; raises OSError if that fails."""
        await self._open_channel.tunnel(asked)

    async def secure(self, tls: Tls, handshakes: Handshakes) -> None:
        """Make the TLS handshake; raises OSError, of which ssl.SSLError is a subclass, if that fails."""
        await self._open_channel.secure(tls, handshakes)

    def open(self) -> None:
        """Make the connection wait for a request."""
        self._become(WireState.WAITING)
        self._open_channel.expect(MOST_UNASKED)
        self._open_channel.watch()  # also reads the bytes that came with the handshake

    async def sleep(self, seconds: float) -> None:
        """Sleep before the request is written; raises ConnectionClosedEarly as soon as the connection is closed."""
        if self.state is WireState.WAITING:
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(seconds, _settle, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        if self.state is not WireState.WAITING:
            raise ConnectionClosedEarly(self._early)

    def prepare(self, request: bytes) -> bytes:
        """Return the bytes to `send` for the request; raises ConnectionClosedEarly if anything has come.

        After this call, a connection with TLS can only send these bytes, or be closed.
        """
        if self._channel:
            self._channel.read()
        if self.state is WireState.WAITING and not self._open_channel.is_clean:
            self.close()
        if self.state is not WireState.WAITING:
            raise ConnectionClosedEarly(self._early)
        return self._open_channel.encrypted(request)

    def send(self, prepared: bytes, reader: AnswerReader, holder: ConnectionHolder) -> None:
        """Write the request; `reader` reads its answer. Raises ConnectionClosedEarly if nothing could be written."""
        try:
            self._open_channel.send(prepared)
        except OSError as error:
            self.close()
            raise ConnectionClosedEarly(str(error)) from error
        self._become(WireState.WRITTEN)
        self.has_carried = True
        self._open_channel.expect(MOST_BESIDE + 2 * reader.most_body)
        self._reader, self._holder, self._whole = reader, holder, self._loop.create_future()

    # --- the answer ---

    async def answer(self) -> None:
        """Return when the answer is whole, or no more of it is read.

        Raises NotHttp, AnswerTooLarge, ConnectionEnded, OSError of the socket, or the error that `fail` was given. The
        reader has the part of the answer that came until then.
        """
        if self._whole is None or self._reader is None:
            raise RuntimeError("no request was written")
        try:
            await self._whole
        finally:
            self._reader.close()
            self._reader = self._holder = self._whole = None

    def fail(self, error: Exception) -> None:
        """End the answer with this error, unless the answer has ended."""
        if self.state in ASKED:
            self.close()
            if self._whole and not self._whole.done():
                self._whole.set_exception(error)

    def _received(self, data: memoryview) -> None:
        reader, channel = self._reader, self._open_channel
        if self.state not in ASKED or reader is None or self._whole is None:
            self._early = f"it says {bytes(data[:SHOWN])!r}"
            self.close()
            return
        try:
            reader.feed(data)
        except Exception as error:  # noqa: BLE001  any error goes to the fetch that waits for the answer
            self.fail(error)
            return
        if reader.section is Section.NOTHING:
            reader.keeps_alive = reader.keeps_alive and channel.is_clean  # an unfinished request would go on
            self._become(WireState.DONE)
            _settle(self._whole)
            return
        self._become(WireState.BODY if reader.has_head else WireState.INTERIM if reader.is_between else WireState.HEAD)
        if self._holder and not self._holder.may_go_on(reader, self._go_on):
            channel.unwatch()
        elif reader.is_costly() or channel.is_costly:
            channel.unwatch()
            self._slow_reads.enter(self._go_on_in_turn)

    def _go_on(self) -> None:
        if self._channel:
            self._channel.watch()

    def _go_on_in_turn(self) -> bool:
        is_open = self._channel is not None
        self._go_on()
        return is_open

    def _ended(self, error: Exception | None) -> None:
        """Handle the site's end of the connection, or the loss of the connection through this error."""
        reader, whole = self._reader, self._whole
        if self.state not in ASKED or reader is None or whole is None:
            self._early = _early_text(error)
            self.close()
        elif isinstance(error, TooManyBytes):
            self.fail(AnswerTooLarge("the answer has more than its body by far, as it is sent"))
        elif error is not None:
            self.fail(error)
        elif reader.ends_with_connection and not self._open_channel.says_end:
            self.fail(ConnectionEnded("the connection ended, and TLS does not say that the body is whole"))
        elif not reader.end():
            self.fail(ConnectionEnded("the site closed the connection in the middle of its answer"))
        else:
            self._become(WireState.DONE)
            self.close()
            _settle(whole)

    # --- from one request to the next ---

    def keep(self, on_end: Callable[[], None]) -> None:
        """Make the connection wait in the pool; `on_end` is called if it ends there."""
        if self.state is WireState.DONE:
            self.since = self._loop.time()
        self._on_end = on_end
        self._open_channel.expect(MOST_UNASKED)
        self._become(WireState.IDLE)

    def take(self) -> None:
        """Make the connection wait for the next request."""
        self._on_end = None
        self._open_channel.expect(MOST_UNASKED)
        self._become(WireState.WAITING)

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._channel is None:
            return
        self._channel.close()
        self._channel = None  # the channel refers back to this connection
        self._become(WireState.CLOSED)
        if self._waiter:
            _settle(self._waiter)
        on_end, self._on_end = self._on_end, None
        if on_end:
            on_end()

    @property
    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise ConnectionClosedEarly(self._early)
        return self._channel

    def _become(self, state: WireState) -> None:
        if state not in FOLLOWING[self.state]:
            raise RuntimeError(f"a connection that is {self.state.value} cannot be {state.value}")
        self.state = state


def _early_text(error: Exception | None) -> str:
    """Say what ended a connection on which no request was written; empty if it just ended."""
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TooManyBytes):
        return "TLS brings much that says nothing"
    return str(error or "")


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
