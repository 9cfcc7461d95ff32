"""The bell's views: a user's own number, a page of notifications, and marking as read. JSON, for signed-in users.

No view tells a user anything about other users' notifications: their ids are treated as ids that do not exist.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse

from weir.notifications import inbox, user_keys
from weir.notifications.models import Notification
from weir.notifications.web import asked, polls

View = Callable[[HttpRequest], HttpResponse]


def _door(method: str) -> Callable[[View], View]:
    """Let a view answer only signed-in users, and only requests of this method. Other requests get a 4xx."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest) -> HttpResponse:
            response = _answer(request)
            response.headers.setdefault("Cache-Control", "private, no-store")
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            return response

        def _answer(request: HttpRequest) -> HttpResponse:
            if request.method != method:
                return HttpResponseNotAllowed([method])
            if not user_keys.are_of_accounts():
                raise Http404("Notifications are for users who are not in AUTH_USER_MODEL (WEIR_USER_KEY).")
            if not request.user.is_authenticated:
                return JsonResponse({"error": "You are signed out."}, status=401)
            try:
                return view(request)
            except asked.BadInput as error:
                return JsonResponse({"error": str(error)}, status=400)

        return login_not_required(guarded)  # a poll without a user gets 401, not a redirect

    return guard


@_door("GET")
def count(request: HttpRequest) -> HttpResponse:
    """Say how many notifications are unread, unless the browser has this number already."""
    number, known = polls.ShownNumber.now(request.user.pk), polls.shown(request)
    unchanged = known is not None and (known.user, known.unread) == (number.user, number.unread)
    body = partial(JsonResponse, {"unread": number.unread})
    return polls.answer(request, number, unchanged=unchanged, body=body)


@_door("GET")
def page(request: HttpRequest) -> HttpResponse:
    """Return the newest notifications, or the newest before an id, and how many of all are unread."""
    limit, user = asked.limit(request), request.user.pk
    found = inbox.page(user, before=asked.before(request), limit=limit, unread_only=asked.unread_only(request))
    following = found[-1].pk if len(found) == limit else None
    shown = {"notifications": [_shown(each) for each in found], "before": following}
    return JsonResponse({"unread": inbox.unread_count(user), **shown})


@_door("POST")
def read(request: HttpRequest) -> HttpResponse:
    """Mark the notifications with the given ids as read."""
    return _marked(request, inbox.mark_read(request.user.pk, asked.ids(request)))


@_door("POST")
def read_all(request: HttpRequest) -> HttpResponse:
    """Mark all notifications that exist now as read."""
    return _marked(request, inbox.mark_all_read(request.user.pk))


def _marked(request: HttpRequest, changed: int) -> HttpResponse:
    return JsonResponse({"changed": changed, "unread": inbox.unread_count(request.user.pk)})


def _shown(row: Notification) -> dict[str, Any]:
    return {
        "id": row.pk,
        "kind": row.kind,
        "title": row.title,
        "body": row.body,
        "url": row.url,
        "created_at": row.created_at.isoformat(),
        "read": row.read_at is not None,
    }
