"""Users who ask for their number, as bell.js does."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.tabs.polling import HOST

PATH = "/bell/"


@dataclass(kw_only=True)
class Polled:
    """What the users got: how many answers of each status, and how long each took from its due time."""

    statuses: Counter[int] = field(default_factory=Counter)
    times_ms: list[float] = field(default_factory=list)


@dataclass(kw_only=True)
class User:
    """A user's tab: its session, and the ETag that it was given last."""

    cookie: str
    etag: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Where to ask, how often, and until when; with what the users get."""

    port: int
    every_s: float
    until: float  # of time.perf_counter()
    with_etag: bool
    polled: Polled = field(default_factory=Polled)

    async def keep(self, user: User, due: float) -> None:
        """Ask for a user at each due time; on a new connection, because the server keeps none for five seconds."""
        while due < self.until:
            await asyncio.sleep(due - time.perf_counter())
            self.polled.statuses[await self._ask(user)] += 1
            self.polled.times_ms.append((time.perf_counter() - due) * 1000)
            due += self.every_s

    async def _ask(self, user: User) -> int:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        etag = f"If-None-Match: {user.etag}\r\n" if self.with_etag and user.etag else ""
        lines = f"Host: {HOST}\r\nConnection: close\r\nCookie: {user.cookie}\r\n{etag}\r\n"
        writer.write(f"GET {PATH} HTTP/1.1\r\n{lines}".encode())
        head = (await reader.read()).decode("latin-1").partition("\r\n\r\n")[0].split("\r\n")
        writer.close()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        user.etag = headers.get("etag", "")
        return int(head[0].split()[1])


async def poll_all(users: Sequence[User], port: int, every_s: float, seconds: float, *, with_etag: bool) -> Polled:
    """Let all users ask every `every_s` for `seconds`, evenly spread."""
    begins = time.perf_counter() + 0.5
    schedule = Schedule(port=port, every_s=every_s, until=begins + seconds, with_etag=with_etag)
    async with asyncio.TaskGroup() as group:
        for place, user in enumerate(users):
            group.create_task(schedule.keep(user, begins + place * every_s / len(users)))
    return schedule.polled
