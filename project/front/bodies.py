"""The body of a request: read to its end, in a bounded time, before the request gets a thread."""

import asyncio
from collections.abc import Mapping
from typing import Final

from project.front.refusals import Message, Receive, RequestRefused
from project.front.room import NoRoom, RoomShare

MOST_S: Final = 10.0
BUSY: Final = "There are too many requests at the same time: try again when Retry-After is over."


class Disconnected(Exception):
    """The client has disconnected before its body was complete."""


def is_without_body(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the headers say that the request has no body."""
    return b"transfer-encoding" not in headers and headers.get(b"content-length", b"0").strip(b"0") == b""


async def read(headers: Mapping[bytes, bytes], receive: Receive, most: int, share: RoomShare) -> bytes:
    """Return the body, of at most `most` bytes. Raises RequestRefused and Disconnected."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise RequestRefused(400, "Content-Length is not a number.")
    digits = length.lstrip(b"0") or b"0"
    if len(digits) > len(str(most)) or int(digits) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(MOST_S) as deadline:
            with share.waiting(deadline):
                return await _whole(receive, most, share)
    except NoRoom:
        raise RequestRefused(503, BUSY, 1) from None
    except TimeoutError:
        if share.gave_way:
            raise RequestRefused(503, BUSY, 1) from None
        raise RequestRefused(408, f"The body did not come within {MOST_S:g} seconds.") from None


async def _whole(receive: Receive, most: int, share: RoomShare) -> bytes:
    parts: list[bytes] = []
    came, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        came += len(part)
        if came > most:
            raise _too_large(most)
        share.take(len(part))
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def again(body: bytes, receive: Receive) -> Receive:
    """Return a Receive that returns the whole body first, and later the message that the client has disconnected."""
    left = [body]

    async def given() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # skip a part of the body that was not read
        return message

    return given


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(413, f"A body has {most:,} bytes at most.")
