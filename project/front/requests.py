"""Limits how many requests Django answers at the same time: each may take a connection to PostgreSQL.

1. The body is read first, within `bodies.MOST_S`: a client that sends slowly holds neither a thread nor a connection.
2. Then the request waits for its turn, for PATIENCE_S at most. In its turn it has a thread in Django, and may take a
   connection.
3. Another task sends the answer, so that a client that reads slowly holds neither a thread nor a connection.

`room` limits the bytes that all requests hold together. Requests for this process' health have their own turns and
room.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from project.front import bodies
from project.front.answers import FrontAnswer
from project.front.refusals import Application, Receive, RequestRefused, Scope, Send, path_of, refuse
from project.front.room import NoRoom, Room, RoomShare
from weir.api.front import most_bytes

PATIENCE_S: Final = 1.0
ROOM: Final = 32 * 1024 * 1024
HEALTH: Final = frozenset({"/healthz", "/readyz"})
HEALTH_AT_ONCE: Final = 8  # project.health and project.readiness use one connection each, at most
HEALTH_ROOM: Final = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class _Means:
    """The turns and the room that this process has for requests of one sort."""

    turns: asyncio.Semaphore
    room: Room
    most_bytes: int  # of a body
    patience_s: float | None  # None: no limit

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises RequestRefused if the turn does not come within `patience_s`."""
        try:
            async with asyncio.timeout(self.patience_s):
                await self.turns.acquire()
        except TimeoutError:
            raise RequestRefused(503, bodies.BUSY, 1) from None
        try:
            yield
        finally:
            self.turns.release()


class BoundedRequests:
    """An ASGI application that passes requests on to another one, if this process has a turn and room for them."""

    def __init__(self, other: Application, *, at_once: int, most_bytes: int) -> None:
        self._other = other
        self._means = _Means(
            turns=asyncio.Semaphore(at_once),
            room=Room(max(ROOM, 4 * most_bytes)),
            most_bytes=most_bytes,
            patience_s=PATIENCE_S,
        )
        self._of_health = _Means(
            turns=asyncio.Semaphore(HEALTH_AT_ONCE), room=Room(HEALTH_ROOM), most_bytes=0, patience_s=None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        means = self._of_health if path_of(scope) in HEALTH else self._means
        try:
            with RoomShare(means.room) as share:
                body = await _body(scope, receive, means, share)
                async with FrontAnswer(send, share) as answer:
                    async with means.turn():
                        await self._other(scope, bodies.again(body, receive), answer.send)
                    await answer.all_sent()
        except NoRoom:
            await refuse(RequestRefused(503, bodies.BUSY, 1), scope, send)
        except RequestRefused as refused:
            await refuse(refused, scope, send)
        except bodies.Disconnected:
            return


async def _body(scope: Scope, receive: Receive, means: _Means, share: RoomShare) -> bytes:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    of_api = most_bytes(path_of(scope), headers)
    most = means.most_bytes if of_api is None else of_api
    if not most or bodies.is_without_body(headers):
        return b""
    return await bodies.read(headers, receive, most, share)
