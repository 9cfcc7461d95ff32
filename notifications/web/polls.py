"""Polls: most find that the browser's number has not changed, and cost one Redis call, no statement, and no body.

A number is sent with a signed ETag. The ETag says which user's number it is, when the session was last looked at, and
what Redis had of the number then. A poll sends the ETag back. `unchanged_polls` answers the poll before Django looks at
the session, if

1. the poll has the same session and path, and the session was looked at less than five minutes ago;
2. Redis is in the same run, with the same incarnation, and PostgreSQL's part has not changed
   (`weir.notifications.watching`);
3. the user's deltas since then add up to 0.

All other polls go to the view. A 304 has a new ETag, because Redis keeps only a few epochs.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

from weir.notifications import user_keys, watching
from weir.notifications.inbox import reading
from weir.notifications.user_keys import UserKey
from weir.redis_link import calls, keys

TRUSTED_S: Final = 300.0  # how long after a look at the session polls are answered that nothing has changed


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownNumber:
    """A number that a browser has, its user, and its parts. Redis alone can check the number only with a `marker`."""

    user: str
    unread: int
    checked_at: float  # time.time() when the session was looked at; relies on the clocks of all hosts being in step
    marker: str = ""
    version: str = ""
    incarnation: str = ""
    epoch: int = 0
    delta: int = 0

    @classmethod
    def now(cls, user_id: UserKey) -> Self:
        """Return the number of a user who has just been found to be signed in. Raises database errors."""
        checked_at, watched = time.time(), _watched()  # before the number, so that the next poll sees any later change
        found = reading.unread_sum(user_id)
        number = cls(user=str(user_keys.clean(user_id)), unread=found.unread, checked_at=checked_at)
        if not watched or not found.incarnation:
            return number
        marker, version = watched
        return replace(
            number,
            marker=marker,
            version=version,
            incarnation=found.incarnation,
            epoch=found.epoch,
            delta=found.delta,
        )

    def after(self, told: watching.Polled | None) -> Self | None:
        """Return the number to send again if Redis says that it has not changed; otherwise None."""
        if told is None or (told.version, told.incarnation) != (self.version, self.incarnation):
            return None
        if told.since != self.delta or not told.delta.is_integer():
            return None
        return replace(self, epoch=told.epoch, delta=int(told.delta))


def _watched() -> watching.Watched | None:
    try:
        return watching.watched()
    except calls.RedisUnreachable:
        return None


def answer(
    request: HttpRequest, number: ShownNumber, *, unchanged: bool, body: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return a response with the number, or a 304 if the number is `unchanged`; both have a new ETag."""
    response = HttpResponse(status=304) if unchanged else body()
    response.headers["ETag"] = etag(request, number, request.path)
    response.headers["Cache-Control"] = "private, no-store"
    return response


def etag(request: HttpRequest, number: ShownNumber, path: str) -> str:
    """Return the ETag with which polls of this session to this path send the number back."""
    return f'"{_signer(request, path).sign_object(list(asdict(number).values()))}"'


def shown(request: HttpRequest) -> ShownNumber | None:
    """Return the number that the browser sends back, or None if this session was not given it."""
    sent = request.headers.get("If-None-Match", "")
    if not sent.startswith('"') or settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return None
    try:
        fields: list[Any] = _signer(request, request.path).unsign_object(sent.strip('"'))
        return ShownNumber(**dict(zip(ShownNumber.__slots__, fields, strict=True)))
    except (BadSignature, ValueError):  # the ETag is of another session, or of another version of this class
        return None


def _signer(request: HttpRequest, path: str) -> Signer:
    return Signer(salt=f"notifications.web {path} {request.COOKIES.get(settings.SESSION_COOKIE_NAME, '')}")


def _again(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a poll whose number has not changed, after one Redis call; None if this is not certain."""
    if "If-None-Match" not in request.headers or request.method != "GET" or not keys.are_known():
        return None
    number = shown(request)
    if number is None or not number.marker or not 0 <= time.time() - number.checked_at < TRUSTED_S:
        return None
    try:
        same = number.after(watching.poll(number.marker, number.user, number.epoch))
    except calls.RedisUnreachable:
        return None
    return None if same is None else answer(request, same, unchanged=True, body=HttpResponse)


@sync_and_async_middleware
def unchanged_polls(get_response: Any) -> Callable[..., Any]:  # noqa: ANN401  Django's
    """Answer polls whose number has not changed. Must come before the middleware of sessions and of users."""
    if not iscoroutinefunction(get_response):
        return lambda request: _again(request) or get_response(request)

    async def polled(request: HttpRequest) -> Any:  # noqa: ANN401  as above
        if "If-None-Match" in request.headers:  # a thread makes the call to Redis, so that it does not block this loop
            found = await sync_to_async(_again, thread_sensitive=False)(request)
            if found:
                return found
        return await get_response(request)

    return polled
