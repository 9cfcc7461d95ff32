"""So many requests at once as connections to PostgreSQL are set aside for them, and each with its body read.

1. The body comes first: whoever sends slowly holds neither a thread nor a connection, and has MOST_S.
2. Then it is the request's turn, within PATIENCE_S. Each has a thread in Django, and takes a connection there.
3. The answer is sent beside that, so that whoever reads slowly holds neither.

What all of them hold has a bound, too: `room`. Who asks whether this process is well stands in a queue of their own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from api.front import most_bytes
from project.front import bodies
from project.front.answers import Answer
from project.front.refusals import Application, Receive, Refused, Scope, Send, path_of, refuse
from project.front.room import NoRoom, Room, Share

PATIENCE_S: Final = 1.0
ROOM: Final = 32 * 1024 * 1024
HEALTH: Final = frozenset({"/healthz", "/readyz"})
HEALTH_AT_ONCE: Final = 8  # of which one at most has a connection each: project.health, project.readiness


class BoundedRequests:
    """An ASGI application that hands on to another one what this process has the means for."""

    def __init__(self, other: Application, *, at_once: int, most_bytes: int) -> None:
        self._other = other
        self._most_bytes = most_bytes
        self._turns = asyncio.Semaphore(at_once)
        self._health_turns = asyncio.Semaphore(HEALTH_AT_ONCE)
        self._room = Room(max(ROOM, 4 * most_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        try:
            with Share(self._room) as share:
                body = await self._body(scope, receive, share)
                async with Answer(send, share) as answer:
                    async with self._turn(scope):
                        await self._other(scope, bodies.again(body, receive), answer.send)
                    await answer.all_sent()
        except NoRoom:
            await refuse(Refused(503, bodies.BUSY, 1), scope, send)
        except Refused as refused:
            await refuse(refused, scope, send)
        except bodies.Disconnected:
            return

    async def _body(self, scope: Scope, receive: Receive, share: Share) -> bytes:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        of_api = most_bytes(path_of(scope), headers)
        most = self._most_bytes if of_api is None else of_api
        if not most or bodies.is_without_body(headers):
            return b""
        return await bodies.read(headers, receive, most, share)

    @asynccontextmanager
    async def _turn(self, scope: Scope) -> AsyncIterator[None]:
        """Wait for a turn. Raises Refused where it does not come soon."""
        if path_of(scope) in HEALTH:
            async with self._health_turns:
                yield
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._turns.acquire()
        except TimeoutError:
            raise Refused(503, bodies.BUSY, 1) from None
        try:
            yield
        finally:
            self._turns.release()
