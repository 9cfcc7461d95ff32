"""Room: the bytes that this process holds for all of its clients together: bodies that come, and answers that go.

If there is none left, a request that waits for its client gives way: the one that has waited for longest. A quick
client is waited for only milliseconds.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

EACH: Final = 64 * 1024  # what a server may hold of any request that is not yet read


class NoRoom(Exception):
    """There is no room, and no request gives way; or this one had to."""


class Room:
    """A number of bytes that requests share."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.waiting: dict[RoomShare, asyncio.Timeout] = {}  # those that wait for clients, the longest first


class RoomShare:
    """What one request holds of the room, while its block lasts."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._size = 0
        self.gave_way = False

    def __enter__(self) -> Self:
        self.take(EACH)
        return self

    def __exit__(self, *_error: object) -> None:
        self.give_back(self._size)

    def take(self, more: int) -> None:
        """Hold this many more bytes. Raises NoRoom."""
        room = self._room
        while room.held + more > room.most and not self.gave_way:
            oldest = next(iter(room.waiting), self)
            if oldest is self:
                raise NoRoom
            oldest._give_way()  # noqa: SLF001  of its own kind
        if self.gave_way:
            raise NoRoom
        room.held += more
        self._size += more

    def give_back(self, less: int) -> None:
        """Hold this many bytes less."""
        less = min(less, self._size)  # a share that gave way has none
        self._room.held -= less
        self._size -= less

    @contextmanager
    def waiting(self, deadline: asyncio.Timeout) -> Iterator[None]:
        """Wait for the client in this block, until this deadline passes or others need the room."""
        self._room.waiting[self] = deadline
        try:
            yield
        finally:
            self._room.waiting.pop(self, None)

    def _give_way(self) -> None:
        deadline = self._room.waiting.pop(self)
        self.give_back(self._size)
        self.gave_way = True
        if not deadline.expired():
            deadline.reschedule(0.0)  # a time long past
