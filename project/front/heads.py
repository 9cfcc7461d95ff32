"""What no head may have, whatever server has read it; /livez, for which one is enough; clients that take no answer."""

import asyncio
import json
from typing import Final

from project.front.refusals import Application, Message, NotTaken, Receive, Refused, Scope, Send, path_of, refuse

MOST_BYTES: Final = 32 * 1024  # of all headers and the URL
MOST_S: Final = 10.0  # for which a client may take nothing of an answer
LIVEZ: Final = "/livez"
ALIVE: Final = {"process": "ok"}


class CheckedHeads:
    """An ASGI application that hands on to another one what has a good head, and answers /livez."""

    def __init__(self, other: Application) -> None:
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        try:
            await self._answer(scope, receive, _taken_in_time(send))
        except NotTaken:
            return  # the server closes the connection, as the answer is not whole

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refused := _fault(scope):
            await refuse(refused, scope, send)
        elif path_of(scope) == LIVEZ:
            await _alive(send)
        else:
            await self._other(scope, receive, send)


def _taken_in_time(send: Send) -> Send:
    """Return what sends, and raises NotTaken where that takes too long."""

    async def taken(message: Message) -> None:
        try:
            async with asyncio.timeout(MOST_S):
                await send(message)
        except TimeoutError:
            raise NotTaken from None

    return taken


def _fault(scope: Scope) -> Refused | None:
    names = [name for name, _ in scope["headers"]]
    if b"transfer-encoding" in names and b"content-length" in names:
        # What one reads as the body is the next request for another (RFC 9112, 6.1).
        return Refused(400, "A request has Content-Length or Transfer-Encoding, and not both.")
    if names.count(b"content-length") > 1:
        return Refused(400, "A request has one Content-Length.")
    size = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MOST_BYTES:
        return Refused(431, f"The URL and the headers have {MOST_BYTES:,} bytes at most.")
    return None


async def _alive(send: Send) -> None:
    """Answer that this process takes requests: without a thread, and so also where there are none left."""
    body = json.dumps(ALIVE).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
