"""Operations on users' notifications and unread numbers."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from weir.api.access import actor
from weir.api.http.problems import IN_PROGRESS, INVALID, OTHER_REQUEST, READ_ONLY
from weir.api.idempotency import once
from weir.api.operations.operation import IDEMPOTENCY_KEY, operation, refused
from weir.api.schemas import notifications as schemas
from weir.api.schemas.values import LARGEST_ID
from weir.api.tokens import scopes
from weir.notifications import actions as unread
from weir.notifications import inbox, user_keys
from weir.workers import cursors
from weir.workers.cursors import BadCursor

router = Router(tags=["notifications"])
FIELDS: Final = tuple(schemas.Notification.model_fields)


@operation(
    router,
    "POST",
    "/notifications",
    scope=scopes.ADD_NOTIFICATIONS,
    answers={201: schemas.Notified},
    refusals=[IN_PROGRESS, OTHER_REQUEST],
)
def post_notification(
    request: HttpRequest, wanted: schemas.NewNotification, idempotency_key: str = IDEMPOTENCY_KEY
) -> HttpResponse:
    """Write the same notification for each of some users: for all or for none."""

    def notify() -> tuple[int, schemas.Notified]:
        with refused(INVALID, ValueError):
            return 201, schemas.Notified(
                written=inbox.notify_many(wanted.users, **wanted.model_dump(exclude={"users"}))
            )

    return once(request, idempotency_key, notify)


@operation(
    router,
    "GET",
    "/users/{user}/notifications",
    scope=scopes.SEE_NOTIFICATIONS,
    answers={200: schemas.NotificationPage},
)
def list_notifications(
    request: HttpRequest, user: schemas.UserKey, query: Query[schemas.NotificationQuery]
) -> schemas.NotificationPage:
    """List a user's notifications, the newest first."""
    with refused(INVALID, ValueError):
        before = _place(query.after)
        rows = inbox.page(user_keys.clean(user), before=before, limit=query.limit + 1, unread_only=query.unread_only)
    shown = rows[: query.limit]
    found = [schemas.Notification(**{name: getattr(row, name) for name in FIELDS}) for row in shown]
    more = cursors.encode([shown[-1].pk]) if len(rows) > query.limit else None
    return schemas.NotificationPage(notifications=found, next=more)


@operation(
    router,
    "POST",
    "/users/{user}/notifications/read",
    scope=scopes.CHANGE_NOTIFICATIONS,
    answers={200: schemas.Marked},
)
def mark_read(request: HttpRequest, user: schemas.UserKey, wanted: schemas.Ids) -> schemas.Marked:
    """Mark some of a user's notifications as read; says how many were unread before."""
    return schemas.Marked(changed=inbox.mark_read(_user(user), wanted.ids))


@operation(
    router,
    "POST",
    "/users/{user}/notifications/read-all",
    scope=scopes.CHANGE_NOTIFICATIONS,
    answers={200: schemas.Marked},
)
def mark_all_read(request: HttpRequest, user: schemas.UserKey) -> schemas.Marked:
    """Mark all of a user's notifications as read, however many; says how many were unread."""
    return schemas.Marked(changed=inbox.mark_all_read(_user(user)))


@operation(
    router,
    "POST",
    "/users/{user}/notifications/unread",
    scope=scopes.CHANGE_NOTIFICATIONS,
    answers={200: schemas.Marked},
)
def mark_unread(request: HttpRequest, user: schemas.UserKey, wanted: schemas.Ids) -> schemas.Marked:
    """Mark some of a user's notifications as unread again; says how many were read before."""
    return schemas.Marked(changed=inbox.mark_unread(_user(user), wanted.ids))


@operation(router, "GET", "/unread/{user}", scope=scopes.SEE_NOTIFICATIONS, answers={200: schemas.Unread})
def get_unread(request: HttpRequest, user: schemas.UserKey) -> schemas.Unread:
    """Say how many notifications of a user are unread."""
    key = _user(user)
    return schemas.Unread(user=str(key), unread=inbox.unread_count(key))


@operation(
    router,
    "POST",
    "/unread/{user}/reconciliations",
    scope=scopes.RECONCILE,
    answers={200: schemas.Reconciled},
    refusals=[READ_ONLY],
)
def reconcile_unread(request: HttpRequest, user: schemas.UserKey, wanted: schemas.Reconcile) -> schemas.Reconciled:
    """Compare a user's number with the rows, and repair it."""
    return schemas.Reconciled(wrong_by=unread.reconcile_user(actor(request), _user(user), why=wanted.why))


def _user(text: str) -> Any:  # noqa: ANN401  the type depends on the installation's user keys
    with refused(INVALID, ValueError):
        return user_keys.clean(text)


def _place(cursor: str) -> int | None:
    if not cursor:
        return None
    match cursors.decode(cursor):
        case [int(place)] if 0 < place <= LARGEST_ID:
            return place
    raise BadCursor
