"""A network between processes and their Redis that delays, cuts and repeats, at random, what they send."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from weir.notifications.counters import ADD

# Shares of all requests. An error keeps a process from Redis for a second, so cuts and long delays must be rare.
CUT: Final = 0.004
DELAYED, DELAYED_LONG = 0.1, 0.004
REPEATED: Final = 0.15
SHORT_S, LONG_S = 0.03, (0.7, 3.0)  # the deadline of a delta lies among the long ones
LIMIT: Final = 2**20  # bytes of a line that the network reads in one piece
CUTS = ("cut before the request", "cut within the request", "cut before the answer")


class Message(NamedTuple):
    """A request or an answer, as it was sent and as it reads."""

    raw: bytes
    value: Any


@dataclass(kw_only=True, slots=True, eq=False)
class Request:
    """What a client sent."""

    message: Message

    def call(self) -> tuple[bytes, ...]:
        """Return what identifies the call: EVAL, after an EVALSHA that found no script, is the same call again."""
        words = self.message.value
        own = 3 + int(words[2])
        return tuple(words[own : own + OWN_ARGUMENTS])

    def deltas(self) -> dict[int, int]:
        """Return the deltas that it asks Redis to add, by user."""
        words = self.message.value
        if words[0] not in {b"EVALSHA", b"EVAL"} or words[1].decode() not in {ADD.sha, ADD.text}:
            return {}
        users = words[3 + int(words[2]) + OWN_ARGUMENTS :]
        return {int(user): int(delta) for user, delta in zip(users[::2], users[1::2], strict=True)}


OWN_ARGUMENTS = 2  # of that script, before the users


@dataclass(kw_only=True)
class FaultyNetwork:
    """Hands on what comes in by TCP to a Unix socket, and back, with faults by `chance`, until it is `mended`.

    A repeated request goes to Redis twice, immediately or later, over the same connection or another one; its second
    answer is dropped. A request that its sender gave up is delivered all the same. `added` is what Redis said that it
    added, by user: once for each call, however often that was delivered.
    """

    path: str
    chance: random.Random
    url: str = ""
    mended: bool = False
    in_flight: int = 0  # requests, and copies of them
    done: Counter[str] = field(default_factory=Counter)
    added: Counter[int] = field(default_factory=Counter)
    _calls: set[tuple[bytes, ...]] = field(default_factory=set)  # that were added
    _copies: set[asyncio.Task[None]] = field(default_factory=set)

    def is_quiet(self) -> bool:
        """Return whether everything that was sent has been delivered."""
        return not self.in_flight

    async def serve(self, listening: threading.Event, stop: asyncio.Event) -> None:
        async with await asyncio.start_server(self._join, "127.0.0.1", 0, limit=LIMIT) as server:
            self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
            listening.set()
            await stop.wait()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on one client's requests, one after the other, until it or the network ends the connection."""
        ours, theirs = await asyncio.open_unix_connection(self.path, limit=LIMIT)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while answer := await self._carry(Request(message=await read(reader)), ours, theirs):
                writer.write(answer.raw)
                await writer.drain()
        theirs.transport.abort()
        writer.transport.abort()

    async def _carry(
        self, request: Request, ours: asyncio.StreamReader, theirs: asyncio.StreamWriter
    ) -> Message | None:
        """Deliver a request, with its faults; return the answer, or nothing if the connection is cut."""
        self.in_flight += 1
        try:
            self.done["requests"] += 1
            repeat_s = self._repeat_s()
            if repeat_s:
                self._repeat_later(request, repeat_s)
            cut = self.chance.choice(CUTS) if self._chooses("", CUT) else ""
            await self._delay()
            self.done[cut] += bool(cut)
            if cut in CUTS[:-1]:
                theirs.write(request.message.raw[: len(request.message.raw) // 2 if cut == CUTS[1] else 0])
                await theirs.drain()
                return None
            answer = await self._deliver(request, ours, theirs)
            if repeat_s == 0.0:
                await self._deliver(request, ours, theirs, "repeated at once")
            await self._delay()
            return None if cut else answer
        finally:
            self.in_flight -= 1

    def _chooses(self, what: str, share: float) -> bool:
        chosen = not self.mended and self.chance.random() < share
        if what:
            self.done[what] += chosen
        return chosen

    def _repeat_s(self) -> float | None:
        """Return after how many seconds to repeat a request, 0 for immediately; None for not at all."""
        if not self._chooses("", REPEATED):
            return None
        return self.chance.choice((0.0, self.chance.uniform(0.0, 2 * SHORT_S), self.chance.uniform(0.0, LONG_S[1])))

    async def _delay(self) -> None:
        if self._chooses("delayed", DELAYED):
            await asyncio.sleep(self.chance.expovariate(1 / SHORT_S))
        if self._chooses("delayed for long", DELAYED_LONG):
            await asyncio.sleep(self.chance.uniform(*LONG_S))

    def _repeat_later(self, request: Request, after_s: float) -> None:
        async def repeat() -> None:
            try:
                await asyncio.sleep(after_s)
                ours, theirs = await asyncio.open_unix_connection(self.path, limit=LIMIT)
                await self._deliver(request, ours, theirs, "repeated later")
                theirs.transport.abort()
            finally:
                self.in_flight -= 1

        self.in_flight += 1
        copy = asyncio.create_task(repeat())
        self._copies.add(copy)
        copy.add_done_callback(self._copies.discard)

    async def _deliver(
        self, request: Request, ours: asyncio.StreamReader, theirs: asyncio.StreamWriter, what: str = ""
    ) -> Message:
        theirs.write(request.message.raw)
        answer = await read(ours)
        deltas = request.deltas()
        self.done[what] += bool(what)
        if deltas and isinstance(answer.value, int):
            self.done["adds " + (what or "sent")] += 1
            self.done["adds refused as late"] += answer.value < 0
            if answer.value > 0 and request.call() not in self._calls:
                self._calls.add(request.call())
                self.added.update(deltas)
        return answer


async def read(reader: asyncio.StreamReader) -> Message:
    """Read one request, or one answer, of Redis' protocol."""
    line = await reader.readuntil(b"\r\n")
    kind, text = line[:1], line[1:-2]
    if kind in b"$=" and int(text) >= 0:
        body = await reader.readexactly(int(text) + 2)
        return Message(line + body, body[:-2])
    if kind in b"*~%>" and int(text) >= 0:
        parts = [await read(reader) for _ in range(int(text) * (1 + (kind == b"%")))]
        return Message(line + b"".join(part.raw for part in parts), [part.value for part in parts])
    return Message(line, int(text) if kind == b":" else text)


@contextmanager
def faulty_network(path: str, chance: random.Random) -> Iterator[FaultyNetwork]:
    """Run such a network before the Unix socket, in a thread of its own."""
    network, loop, stop = FaultyNetwork(path=path, chance=chance), asyncio.new_event_loop(), asyncio.Event()
    listening = threading.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[network.serve(listening, stop)])
    thread.start()
    try:
        assert listening.wait(10)
        yield network
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
