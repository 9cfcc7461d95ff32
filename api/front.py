"""In front of Django: bodies of requests to the API are bounded in size and in time, before anything is done with them.

Django reads a body to its end, however long and slow it is, before it asks who has sent it. Here one without an
Authorization header is not read at all, and all others in MOST_BYTES and MOST_S.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from api.http.problems import MALFORMED, MEDIA_TYPE, SLOW_BODY, TOO_LARGE, Problem
from api.middleware import BELOW, HEADERS

MOST_BYTES: Final = 2 * 1024 * 1024
MOST_S: Final = 10.0
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Disconnected(Exception):
    """The client has gone before its body was whole."""


class BoundedBodies:
    """An ASGI application that hands on requests to another one, those to the API with their bodies read."""

    def __init__(self, other: Application) -> None:
        self._other = other

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(BELOW):
            await self._other(scope, receive, send)
            return
        try:
            async with asyncio.timeout(MOST_S):
                body = await _body(dict(scope["headers"]), receive)
        except Problem as problem:
            await _refuse(problem, send)
        except TimeoutError:
            await _refuse(Problem(SLOW_BODY, f"The body did not come within {MOST_S:g} seconds."), send)
        except Disconnected:
            return
        else:
            await self._other(scope, _again(body, receive), send)


async def _body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """Return the body; nothing of it where no token was sent. Raises Problem and Disconnected."""
    if b"authorization" not in headers:
        return b""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise Problem(MALFORMED, "Content-Length is no number.")
    parts: list[bytes] = []
    came = 0
    size = int(length) if len(length) < len(str(MOST_BYTES)) + 1 else MOST_BYTES + 1
    while size <= MOST_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        came += len(parts[-1])
        size = max(size, came)
        if not message.get("more_body"):
            break
    if size > MOST_BYTES:
        raise Problem(TOO_LARGE, f"A body has {MOST_BYTES:,} bytes at most.")
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what gives the whole body, and then what else comes: that the client has gone."""
    left = [body]

    async def given() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # what was not read
        return message

    return given


async def _refuse(problem: Problem, send: Send) -> None:
    """Answer, and have the server close the connection: the rest of the body may still be on its way."""
    headers = {"Content-Type": MEDIA_TYPE, "Connection": "close", **HEADERS}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.kind.status, "headers": raw})
    await send({"type": "http.response.body", "body": problem.body()})
