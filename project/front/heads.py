"""Refuses bad heads, whatever server has read them; answers /livez; ends connections whose clients take no answer."""

import asyncio
import json
from collections.abc import Iterator
from typing import Final

from project.front.refusals import Application, Message, NotTaken, Receive, RequestRefused, Scope, Send, path_of, refuse

MOST_BYTES: Final = 32 * 1024  # of all headers and the URL
MOST_S: Final = 10.0  # how long a client may take to read one piece of an answer
PIECE: Final = 64 * 1024  # bytes of an answer that the server gets at a time; it buffers all that it gets
LIVEZ: Final = "/livez"
ALIVE: Final = {"process": "ok"}
CLOSE: Final = "weir.close"  # the key in `scope["state"]` of a function that closes the connection immediately


class CheckedHeads:
    """An ASGI application that passes requests with a good head on to another application, and answers /livez."""

    def __init__(self, other: Application) -> None:
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # a server makes a 403 of it
            return
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        try:
            await self._answer(scope, receive, _taken_in_time(send))
        except NotTaken:
            await _close(scope, receive)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refused := _fault(scope):
            await refuse(refused, scope, send)
        elif path_of(scope) == LIVEZ:
            await _alive(send)
        else:
            await self._other(scope, receive, send)


async def _close(scope: Scope, receive: Receive) -> None:
    """Close a connection whose answer will stay incomplete.

    Any server closes such a connection when the application returns, but only after the client has read what the server
    has buffered. uvicorn also logs an error.
    """
    if close := scope.get("state", {}).get(CLOSE):
        close()
        while (await receive())["type"] != "http.disconnect":
            pass


def _taken_in_time(send: Send) -> Send:
    """Return a Send that raises NotTaken if the client does not take a piece of PIECE bytes within MOST_S seconds.

    A slow client still gets a large answer, because the time is for each piece.
    """

    async def taken(message: Message) -> None:
        for piece in _pieces(message):
            try:
                async with asyncio.timeout(MOST_S):
                    await send(piece)
            except TimeoutError:
                raise NotTaken from None

    return taken


def _pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if len(body) <= PIECE:
        yield message
        return
    for start in range(0, len(body), PIECE):
        more = message.get("more_body", False) or start + PIECE < len(body)
        yield {**message, "body": body[start : start + PIECE], "more_body": more}


def _fault(scope: Scope) -> RequestRefused | None:
    if sentence := _fault_of_framing(scope):
        return RequestRefused(400, sentence)
    if any(name == b"cookie" and rb"\000" in value for name, value in scope["headers"]):
        return RequestRefused(400, "A cookie has no NUL.")  # \000 is NUL in a quoted cookie; no database stores NUL
    if scope["method"] == "CONNECT":
        return RequestRefused(501, "This is not a proxy.")  # what follows a good answer would not be HTTP
    size = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MOST_BYTES:
        return RequestRefused(431, f"The URL and the headers have {MOST_BYTES:,} bytes at most.")
    return None


def _fault_of_framing(scope: Scope) -> str:
    """Return a sentence if another server may see the end of this request elsewhere (RFC 9112, 6.1); "" otherwise."""
    names = [name for name, _ in scope["headers"]]
    if b"transfer-encoding" in names and b"content-length" in names:
        return "A request has Content-Length or Transfer-Encoding, and not both."
    if b"transfer-encoding" in names and scope["http_version"] == "1.0":
        return "A request by HTTP/1.0 has no Transfer-Encoding."
    return "A request has one Content-Length." if names.count(b"content-length") > 1 else ""


async def _alive(send: Send) -> None:
    """Answer that this process takes requests. This needs no thread, so it works even if all threads are busy."""
    body = json.dumps(ALIVE).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
