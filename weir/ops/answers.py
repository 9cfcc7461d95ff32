"""Answers from memory: many tabs show the same page, and each tab asks for it every few seconds.

A page says for how long its answer is valid for every visitor who may see the page, and has the same powers: a page
offers what its visitor may do. Until then this process repeats the answer before Django handles the request: no thread
is started, and no session or user is read from the database. Only visitors whose session was checked less than
TRUSTED_S ago get such an answer. So a visitor who has lost a permission may go on to see changes for TRUSTED_S at most.
The process that handles a visitor's sign-out forgets this visitor immediately.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest, HttpResponse

LIVE: Final = "X-Weir-Live"  # the header of a request for the live part of a page, which changes
TRUSTED_S: Final = 10.0
MOST_KEPT: Final = 1_000  # visitors, and as many answers
MOST_BYTES: Final = 32 * 1024 * 1024  # the size of all answers together
_LIVE: Final = LIVE.lower().encode()

Powers = frozenset[str]
Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class Visitor(NamedTuple):
    """Until when a visitor is trusted, by time.monotonic(), and what the visitor might do when that was checked."""

    until: float
    powers: Powers


SIGNED_OUT: Final = Visitor(float("-inf"), frozenset())


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    """The live part of a page, and until when it is valid."""

    live: bytes
    etag: str
    good_until: float  # by time.monotonic()

    def to(self, etag: str) -> HttpResponse:
        """Return the response to a browser that has the version `etag`: 304 if this is the same version."""
        headers = {"ETag": self.etag, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return (
            HttpResponse(status=304, headers=headers) if etag == self.etag else HttpResponse(self.live, headers=headers)
        )


_lock = threading.Lock()
_visitors: OrderedDict[str, Visitor] = OrderedDict()  # by session key
_answers: OrderedDict[tuple[str, Powers], BoundedAnswer] = OrderedDict()  # by path with query, and powers


def remember(request: HttpRequest, powers: Powers, answer: BoundedAnswer) -> None:
    """Keep this answer, while it is valid, for visitors with these powers who were lately allowed to see a page.

    This visitor is one.
    """
    if answer.good_until > time.monotonic() and _trust(request, powers):
        with _lock:
            _put(_answers, (request.get_full_path(), powers), answer)
            while sum(len(kept.live) for kept in _answers.values()) > MOST_BYTES:
                _answers.popitem(last=False)


def given_again(request: HttpRequest, powers: Powers) -> HttpResponse | None:
    """Return a valid answer to a request for the live part of a page, if there is one for visitors with these powers.

    The caller has checked the visitor's permission.
    """
    if LIVE not in request.headers:
        return None
    answer = _answers.get((request.get_full_path(), powers))
    if answer is None or answer.good_until <= time.monotonic() or not _trust(request, powers):
        return None
    return answer.to(request.headers.get("If-None-Match", ""))


def _trust(request: HttpRequest, powers: Powers) -> bool:
    """Trust this visitor for TRUSTED_S; returns False if the visitor has no session, or has signed out.

    The visitor may have signed out after the permission for this request was checked.
    """
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not session:
        return False
    with _lock:
        if _visitors.get(session) == SIGNED_OUT:
            return False
        _put(_visitors, session, Visitor(time.monotonic() + TRUSTED_S, powers))
    return True


class GivenAgain:
    """An ASGI application that answers from memory if it can, and passes other requests to another application."""

    def __init__(self, other: Application) -> None:
        self._other = other

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if (response := _remembered(scope)) is None:
            await self._other(scope, receive, send)
            return
        headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": response.content})


def _remembered(scope: Scope) -> HttpResponse | None:
    """Return a valid answer to a request for the live part of a page, if there is one and the visitor is trusted."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if _LIVE not in headers:
        return None
    query = scope["query_string"].decode("latin-1")
    now, path = time.monotonic(), scope["path"] + (f"?{query}" if query else "")
    visitor = _visitors.get(_session(headers), SIGNED_OUT)
    answer = _answers.get((path, visitor.powers))
    if answer is None or answer.good_until <= now or visitor.until <= now:
        return None
    return answer.to(headers.get(b"if-none-match", b"").decode("latin-1"))


def _session(headers: dict[bytes, bytes]) -> str:
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return ""
    found = cookies.get(settings.SESSION_COOKIE_NAME)
    return found.value if found else ""


def forget() -> None:
    """Forget all visitors and all answers."""
    with _lock:
        _visitors.clear()
        _answers.clear()


def _put(kept: "OrderedDict[Any, Any]", key: object, value: object) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _forget_visitor(request: HttpRequest, user: object, **_signal: object) -> None:
    if user is None:  # no user was signed in: anyone can send such a request, with any session key
        return
    with _lock:
        _put(_visitors, request.session.session_key or "", SIGNED_OUT)  # no later session gets this key


user_logged_out.connect(_forget_visitor, dispatch_uid="weir.ops.answers")
