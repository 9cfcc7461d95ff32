"""Room: the bytes of bodies and answers that this process holds for all of its clients together.

If no room is left, the request that has waited for its client for longest gives way. A request of a quick client waits
only for milliseconds, so it is rarely that one.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

EACH: Final = 64 * 1024  # bytes that a server may buffer of any request


class NoRoom(Exception):
    """No room is left, and no other request can give way; or this request has had to give way."""


class Room:
    """A number of bytes that requests share."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.waiting: dict[RoomShare, asyncio.Timeout] = {}  # shares that wait for clients, the longest first


class RoomShare:
    """The bytes of the room that one request holds. Leaving the block gives them back."""

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
        """Wait for the client in this block. If another request needs the room, the deadline passes immediately."""
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
