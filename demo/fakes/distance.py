"""A server that is far away: a TCP port whose connections lead to a Unix socket, each direction with a delay.

Delays do not limit what is in flight, as on a long line. With jitter, each packet takes up to that much longer; packets
keep their order. A lost packet is sent again, as TCP does, after a time-out and a further round trip, and all packets
behind it wait. A line that hangs accepts data, delivers nothing, and tells neither side.
"""

import asyncio
import random
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

CHUNK = 65_536
SENT_AGAIN_AFTER_S = 0.2  # Linux's shortest time-out, to which it adds the round trip
LOOK_EVERY_S = 0.02
Line = asyncio.Queue[tuple[float, bytes]]  # when each packet arrives, and its bytes; an empty packet is the end


class Distance:
    """The port, and the delay of one direction, which may be changed: half of a round trip."""

    def __init__(self, target: Path, round_trip_s: float, jitter_s: float) -> None:
        self.port = 0
        self.round_trip_s = round_trip_s
        self.jitter_s = jitter_s  # of a round trip, at most
        self.lost_share = 0.0  # of all packets
        self.lost = 0
        self.hangs = False
        self._target = target
        self._work: set[asyncio.Future[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a connection to the server, until either side closes it."""
        there, back = await asyncio.open_unix_connection(str(self._target))
        for source, sink in ((reader, back), (there, writer)):
            line: Line = asyncio.Queue()
            self._keep(self._read(source, line))
            self._keep(self._write(line, sink))

    async def close(self) -> None:
        """End all connections."""
        for work in self._work:
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _read(self, source: asyncio.StreamReader, line: Line) -> None:
        data = b"-"
        while data:
            try:
                data = await source.read(CHUNK)
            except ConnectionError:
                data = b""
            line.put_nowait((asyncio.get_running_loop().time() + self._delay_s(), data))

    async def _write(self, line: Line, sink: asyncio.StreamWriter) -> None:
        """Deliver the packets on the line in their order, each when it arrives."""
        loop, data = asyncio.get_running_loop(), b"-"
        try:
            while data:
                arrives_at, data = await line.get()
                await asyncio.sleep(arrives_at - loop.time())
                while self.hangs:  # noqa: ASYNC110  another thread sets it; asyncio's Event allows one thread only
                    await asyncio.sleep(LOOK_EVERY_S)
                sink.write(data)
        finally:
            sink.close()

    def _delay_s(self) -> float:
        delay_s = self.round_trip_s / 2 + random.uniform(0, self.jitter_s / 2)  # noqa: S311  a fake
        if random.random() < self.lost_share:  # noqa: S311  a fake
            self.lost += 1
            delay_s += SENT_AGAIN_AFTER_S + self.round_trip_s
        return delay_s


@contextmanager
def distance(target: Path, round_trip_s: float, jitter_s: float = 0.0) -> Iterator[Distance]:
    """Proxy the Unix socket to a port of 127.0.0.1, and add this round-trip time."""
    far, loop = Distance(target, round_trip_s, jitter_s), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(far.accept, "127.0.0.1", 0))
    far.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, name="distance", daemon=True)
    thread.start()
    try:
        yield far
    finally:
        loop.call_soon_threadsafe(server.close)
        asyncio.run_coroutine_threadsafe(far.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
