"""Channels: the bytes of one socket, with or without TLS. The connection knows what the bytes mean (connection.py).

A read is one system call, of READ bytes at most. A write is one system call, too, unless the kernel does not take all
bytes, which is rare. An error of the socket is passed on unchanged, after all bytes that came before it. On the loop's
thread only.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable

from weir.workers.fetches.fetcher.wire.handshakes import Handshakes
from weir.workers.fetches.fetcher.wire.tls import Tls

READ = 2**16
MANY_READS = 1_000  # of a handshake, or an answer: after each further read, the kernel gathers bytes for GATHERING_S
FULL = READ // 4  # bytes that a read must bring to be worth it: it is not counted then
GATHERING_S = 0.01
MOST_OF_HANDSHAKE = 2**18  # bytes
MOST_OF_TUNNEL = 2**14  # bytes of a proxy's answer, and of interim answers before it
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9]{2}[ \r]")  # 101 is none
_END_OF_HEAD = b"\r\n\r\n"
MOST_SILENT = 16  # records of TLS without text, while one answer or none comes: a thousand tickets fit into each
MOST_REPLY = 2**12  # bytes that TLS replies to the bytes of one read: a record may ask 4,000 times for new keys
SMALL = 256  # bytes: a record of TLS that is smaller costs more than its length explains, a microsecond or two
FREE_SMALL = 2_000  # small records of an answer that is read as it comes; an answer with more is read in its turn
MOST_SMALL = 2**15  # small records of one answer


class TunnelRefused(OSError):
    """The proxy did not connect us to the site."""


class ProxyAsks(TunnelRefused):
    """The proxy wants other credentials, or any (407)."""


class TooManyBytes(Exception):
    """More came than was expected: TLS may bring many bytes that carry little."""


_buffer = memoryview(bytearray(READ))  # all channels share this buffer: they are read one after the other


class Channel:
    """One socket. Calls `received` with the bytes that have come, and `ended` at the end, with the error if any."""

    def __init__(
        self,
        opened: socket.socket,
        loop: asyncio.AbstractEventLoop,
        received: Callable[[memoryview], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self.is_watched = False  # the loop calls back when there is something to read
        self._socket = opened
        self._loop = loop
        self._received = received
        self._ended = ended
        self._tls: Tls | None = None
        self._unsent = b""
        self._gathering: asyncio.TimerHandle | None = None  # until the loop looks at the socket again
        self._most = 0  # bytes that may come, as set by `expect`. The following are counted since then:
        self._came = 0  # bytes that came, including those of TLS
        self._reads = 0  # reads that brought something
        self._texts = 0  # records that had text

    @property
    def is_clean(self) -> bool:
        """Return whether everything to be sent is sent, and no record has come only in part."""
        return not self._unsent and (self._tls is None or self._tls.is_between_records)

    @property
    def is_costly(self) -> bool:
        """Return whether reading takes more time than the length explains: the bytes come in many small records."""
        return self._small_records() > FREE_SMALL

    @property
    def says_end(self) -> bool:
        """Return whether the site itself ended the connection; with TLS, an attacker in between may have done so."""
        return self._tls is None or self._tls.is_ended

    def expect(self, most: int) -> None:
        """Take at most `most` bytes from now on; more bytes end the channel with TooManyBytes."""
        self._came, self._most, self._texts, self._reads = 0, most, 0, 0
        if self._tls is not None:
            self._tls.records = 0

    async def secure(self, tls: Tls, handshakes: Handshakes) -> None:
        """Make the TLS handshake; raises OSError, of which ssl.SSLError is a subclass, if that fails."""
        self._tls = tls
        is_done = False
        while not is_done:
            try:
                is_done = await handshakes.shake(tls, self._came)
            finally:  # also after an error: the server is told what is wrong
                await self._loop.sock_sendall(self._socket, tls.to_send())
            if not is_done:
                data = await self._loop.sock_recv(self._socket, READ)
                if not data:
                    raise ConnectionResetError("the site closed the connection in the TLS handshake")
                self._came += len(data)
                self._reads += 1
                if self._reads > MANY_READS:
                    await asyncio.sleep(GATHERING_S)
                if self._came > MOST_OF_HANDSHAKE:
                    raise ConnectionResetError("the site sends too much for a TLS handshake")
                tls.receive(memoryview(data))

    async def tunnel(self, asked: bytes) -> None:
        """Have the proxy at the other end open a tunnel, before TLS; raises OSError if it does not."""
        await self._loop.sock_sendall(self._socket, asked)
        came, size = b"", 0
        while (end := came.find(_END_OF_HEAD)) < 0 or _INTERIM.match(came):
            if end >= 0:  # it says nothing about the tunnel yet (RFC 9110, 15.2)
                came = came[end + len(_END_OF_HEAD) :]
                continue
            data = await self._loop.sock_recv(self._socket, READ)
            came, size = came + data, size + len(data)
            if not data or size > MOST_OF_TUNNEL:
                raise TunnelRefused(
                    f"the proxy opens no tunnel: it {'says too much' if data else 'ends the connection'}"
                )
        status = _STATUS.match(came)
        if status is None or not status[1].startswith(b"2"):
            said = f"answers {status[1].decode()}" if status else "does not answer in HTTP"
            asks = status is not None and status[1] == b"407"
            raise (ProxyAsks if asks else TunnelRefused)(f"the proxy opens no tunnel: it {said}")
        if came[end + len(_END_OF_HEAD) :]:
            raise TunnelRefused("the proxy opens no tunnel: it speaks before the site is asked")

    def encrypted(self, text: bytes) -> bytes:
        """Return the bytes to `send` for this text."""
        return self._tls.write(text) if self._tls else text

    def send(self, data: bytes) -> None:
        """Write with one system call; raises OSError if the kernel takes nothing. What it leaves is written later."""
        if (sent := self._socket.send(data)) < len(data):
            self._send_later(data[sent:])

    def watch(self) -> None:
        """Read bytes as they come, beginning with those that TLS has received already."""
        if not self.is_watched:
            self.is_watched = True
            if self._gathering is None:
                self._loop.add_reader(self._socket, self._readable)
        self._drain()

    def unwatch(self) -> None:
        """Read no more, until `watch` is called."""
        if self.is_watched:
            self.is_watched = False
            if self._gathering is None:
                self._loop.remove_reader(self._socket)

    def close(self) -> None:
        self.unwatch()
        if self._gathering:
            self._gathering.cancel()
        if self._unsent:
            self._loop.remove_writer(self._socket)
        self._socket.close()

    def read(self) -> bool:
        """Read the bytes that have come, with one system call; return whether anything has come, or the end."""
        try:
            size = self._socket.recv_into(_buffer)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._ended(error)
            return True
        self._came += size
        self._reads += 1
        if not size:
            self._ended(None)
        elif self._tls is None:
            self._received(_buffer[:size])
        else:
            self._tls.receive(_buffer[:size])
            self._drain()
        if self._came > self._most and self.is_watched:
            self._ended(TooManyBytes())
        return True

    def _readable(self) -> None:
        """Read the bytes that have come, and look whether more follow.

        uvloop reports a reset once, and stops watching the socket, although there may be bytes to read before it.
        """
        if not self.read() or not self.is_watched:
            return
        if self._reads > MANY_READS + self._came // FULL:
            self._loop.remove_reader(self._socket)
            self._gathering = self._loop.call_later(GATHERING_S, self._gathered)
        elif self.read() and self.is_watched:
            self._loop.remove_reader(self._socket)
            self._loop.add_reader(self._socket, self._readable)

    def _gathered(self) -> None:
        self._gathering = None
        if self.is_watched:
            self._loop.add_reader(self._socket, self._readable)

    def _drain(self) -> None:
        """Hand over the text that TLS has received."""
        if self._tls is None:
            return
        texts: list[bytes] = []
        try:
            while text := self._tls.read():
                texts.append(text)
        except ssl.SSLError as error:
            self._hand_over(texts)
            self._ended(error)
            return
        self._hand_over(texts)
        if self.is_watched:
            self._look_at_tls(self._tls)

    def _hand_over(self, texts: list[bytes]) -> None:
        """Hand these texts over together, as if they had come without TLS."""
        self._texts += len(texts)
        if texts:
            self._received(memoryview(b"".join(texts)))

    def _look_at_tls(self, tls: Tls) -> None:
        """Send the replies of TLS itself, and end the channel if too much comes besides text."""
        if len(reply := tls.to_send()) > MOST_REPLY:
            self._ended(TooManyBytes())
            return
        if reply:
            self._send_later(reply)
        if tls.is_ended:
            self._ended(None)
        elif tls.records - self._texts > MOST_SILENT or self._small_records() > MOST_SMALL:
            self._ended(TooManyBytes())

    def _small_records(self) -> int:
        """Return how many more records came than one for every SMALL bytes."""
        return self._tls.records - self._came // SMALL if self._tls else 0

    def _send_later(self, unsent: bytes) -> None:
        self._unsent += unsent
        self._loop.add_writer(self._socket, self._send_unsent)

    def _send_unsent(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the site takes no more, and may have answered before: what is left to read says so
            self._loop.remove_writer(self._socket)
            while self.is_watched and self.read():
                pass
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket)
