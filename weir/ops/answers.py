"""Answers that are given again: many tabs show the same page, and each asks for it every few seconds.

A page says for how long its answer is good for everybody who may see it. Until then this process gives it again, in
front of Django: before a thread is started, and sessions and users are read from the database. A visitor whose session
was looked at less than TRUSTED_S ago gets it; so one who has lost the permission sees changes for as long afterwards,
at most. Who signs out is forgotten at once, by the process that hears of it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.signals import user_logged_out
from django.http import HttpRequest, HttpResponse

LIVE: Final = "X-Weir-Live"  # the header of a request for what changes
TRUSTED_S: Final = 10.0
MOST_KEPT: Final = 1_000  # visitors, and answers
MOST_BYTES: Final = 32 * 1024 * 1024  # of all answers
SIGNED_OUT: Final = float("-inf")  # in place of the time until which a visitor is trusted
_LIVE: Final = LIVE.lower().encode()

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    """What changes of a page, and until when it is good."""

    live: bytes
    etag: str
    good_until: float  # of time.monotonic()

    def to(self, etag: str) -> HttpResponse:
        """Return the response to a browser that has what `etag` names: 304 where it is the same."""
        headers = {"ETag": self.etag, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return (
            HttpResponse(status=304, headers=headers) if etag == self.etag else HttpResponse(self.live, headers=headers)
        )


_lock = threading.Lock()
_visitors: OrderedDict[str, float] = OrderedDict()  # session keys, and until when they are trusted
_answers: OrderedDict[str, BoundedAnswer] = OrderedDict()  # by path and query


def remember(request: HttpRequest, answer: BoundedAnswer) -> None:
    """Give this answer again, while it is good, to those who were allowed to see a page lately, as this visitor was."""
    if answer.good_until > time.monotonic() and _trust(request):
        with _lock:
            _put(_answers, request.get_full_path(), answer)
            while sum(len(kept.live) for kept in _answers.values()) > MOST_BYTES:
                _answers.popitem(last=False)


def given_again(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a request for what changes, if one is good. The visitor was just found to be allowed it."""
    if LIVE not in request.headers:
        return None
    answer = _answers.get(request.get_full_path())
    if answer is None or answer.good_until <= time.monotonic() or not _trust(request):
        return None
    return answer.to(request.headers.get("If-None-Match", ""))


def _trust(request: HttpRequest) -> bool:
    """Answer this visitor by memory for a while; tell whether there is a session to know the visitor by.

    There is none after its end, of which a request that was allowed before may not have heard.
    """
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not session:
        return False
    with _lock:
        if _visitors.get(session) == SIGNED_OUT:
            return False
        _put(_visitors, session, time.monotonic() + TRUSTED_S)
    return True


class GivenAgain:
    """An ASGI application that answers what it can by memory, and leaves all else to another one."""

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
    """Return the answer to a request for what changes, if one is good and the visitor is known."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if _LIVE not in headers:
        return None
    query = scope["query_string"].decode("latin-1")
    now, path = time.monotonic(), scope["path"] + (f"?{query}" if query else "")
    answer = _answers.get(path)
    if answer is None or answer.good_until <= now or _visitors.get(_session(headers), 0.0) <= now:
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
    """Know no visitor and no answer any more."""
    with _lock:
        _visitors.clear()
        _answers.clear()


def _put(kept: "OrderedDict[str, Any]", key: str, value: object) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def _forget_visitor(request: HttpRequest, user: object, **_signal: object) -> None:
    if user is None:  # nobody was signed in: anybody can ask for that, with any session
        return
    with _lock:
        _put(_visitors, request.session.session_key or "", SIGNED_OUT)  # no later session has this key


user_logged_out.connect(_forget_visitor, dispatch_uid="weir.ops.answers")
