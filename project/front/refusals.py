"""How a request is refused in front of Django: as a problem below /api/, as a sentence elsewhere."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from weir.api.front import problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass
class RequestRefused(Exception):
    """A request is refused; nothing was done."""

    status: int
    sentence: str
    retry_after_s: int = 0


class NotTaken(Exception):
    """The client does not read its answer."""


def path_of(scope: Scope) -> str:
    """Return the path that Django's URLs see: without the prefix below which the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path") or "")


async def refuse(refused: RequestRefused, scope: Scope, send: Send) -> None:
    """Send the refusal, and make the server close the connection: the rest of the body may still be on its way."""
    headers, body = problem(path_of(scope), refused.status, refused.sentence) or (
        {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
        f"{refused.sentence}\n".encode(),
    )
    headers |= {"Connection": "close", "Content-Length": str(len(body))}
    if refused.retry_after_s:
        headers["Retry-After"] = str(refused.retry_after_s)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
