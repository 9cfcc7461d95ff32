"""The answer to a request. A task sends it while Django makes it: no thread or connection waits for the client."""

import asyncio
from collections import deque
from typing import Final, Self

from project.front.refusals import Message, NotTaken, Send
from project.front.room import NoRoom, RoomShare

MOST_BYTES: Final = 2 * 1024 * 1024  # of an answer that may wait for the client


class FrontAnswer:
    """The messages of an answer that are not yet sent, and the task that sends them."""

    def __init__(self, send: Send, share: RoomShare) -> None:
        self._send = send
        self._share = share
        self._left: deque[tuple[Message, int]] = deque()  # each message with the bytes that it takes of the share
        self._size = 0
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_made = False

    async def send(self, message: Message) -> None:
        """Take a message over, and wait while too much is unsent. Raises CancelledError if the client has gone."""
        if self._task is None:
            self._task = asyncio.create_task(self._send_all())
        size = len(message.get("body", b""))
        while not self._task.done():
            if (is_held := self._hold(size)) or not self._left:
                self._left.append((message, size if is_held else 0))
                self._moved.set()
                return
            await self._move()
        raise asyncio.CancelledError

    async def all_sent(self) -> None:
        """Wait until the client has the whole answer. Raises NotTaken."""
        self._is_made = True
        self._moved.set()
        if self._task is not None:
            await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop sending: all is sent, or an error happened. Raises NotTaken if the client did not take the answer."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and isinstance(self._task.exception(), NotTaken):
            raise NotTaken

    def _hold(self, size: int) -> bool:
        if self._size + size > MOST_BYTES:
            return False
        try:
            self._share.take(size)
        except NoRoom:
            return False
        self._size += size
        return True

    async def _move(self) -> None:
        """Wait for the other side. `send` waits if too much is unsent, `_send_all` if nothing is, so never both."""
        self._moved.clear()
        await self._moved.wait()

    async def _send_all(self) -> None:
        try:
            async with asyncio.timeout(None) as deadline:
                while self._left or not self._is_made:
                    if not self._left:
                        await self._move()
                        continue
                    message, held = self._left.popleft()
                    with self._share.waiting(deadline):
                        await self._send(message)
                    self._size -= held
                    self._share.give_back(held)
                    self._moved.set()
        except TimeoutError:  # other requests need the room
            raise NotTaken from None
        finally:
            self._moved.set()
