"""Operators' actions: reconciling numbers, deleting notifications, forgetting users; each writes an audit entry."""

from collections.abc import Callable, Collection
from typing import Any, Final

from django.db import transaction

from weir.notifications import reconcile
from weir.notifications.maintenance import forgetting
from weir.notifications.reconciliation.repairs import Repaired
from weir.notifications.removal import bulk
from weir.notifications.user_keys import UserKey
from weir.workers.audit.acting import Actor, AuditedAction

RECONCILE: Final = AuditedAction("unread.reconcile_user", "weir_notifications.change_reconciliation")
DELETE: Final = AuditedAction("unread.delete_notifications", "weir_notifications.delete_notification")
FORGET: Final = AuditedAction("users.forget", "weir_notifications.add_forgottenuser", wants_reason=True)
MOST_NAMED: Final = 100  # users that an entry names


def reconcile_user(actor: Actor, user: UserKey, *, why: str = "") -> int | None:
    """Compare a user's number with the rows, and repair it; returns by how much it changes, or None if it was right.

    Works like reconcile_users.
    """
    drifts: list[int] = []
    reconcile_users(actor, [user], why=why, on_drift=lambda _user, drift: drifts.append(drift))
    return drifts[0] if drifts else None


def reconcile_users(
    actor: Actor,
    users: Collection[UserKey] | None,
    *,
    why: str = "",
    on_drift: Callable[[UserKey, int], None] = lambda _user, _drift: None,
    **told: Any,
) -> Repaired:
    """Compare the numbers of these users, or of all (None), with the rows, and repair them (reconcile.reconcile_users).

    The repairs are those that the schedule would make. They commit by themselves, some users at a time. The entry is
    written after the repairs, and says by how much the first numbers were changed.
    """
    RECONCILE.allow(actor, why)
    changed_by: dict[str, int] = {}
    changed = 0

    def note(user: UserKey, drift: int) -> None:
        nonlocal changed
        changed += 1
        if len(changed_by) < MOST_NAMED:
            changed_by[str(user)] = drift
        on_drift(user, drift)

    target = "all users" if users is None else f"user {', '.join(map(str, users))}"
    try:
        return reconcile.reconcile_users(users, on_drift=note, **told)
    finally:  # repairs before an error, or before Ctrl-C, get their entry, too
        if changed:
            RECONCILE.record(actor, target, why, before=None, after={"repaired": changed, "changed_by": changed_by})


def delete_notifications(actor: Actor, meant: bulk.Meant, *, why: str = "") -> int:
    """Delete the notifications that are meant, page by page, and change unread numbers; returns how many were deleted.

    Each page commits by itself. The entry is written after all pages.
    """
    DELETE.allow(actor, why)
    deleted = 0
    older_than_s = None if meant.older_than is None else meant.older_than.total_seconds()
    before = {"kinds": [*meant.kinds], "users": [*map(str, meant.users)][:MOST_NAMED], "older_than_s": older_than_s}
    try:
        for of_page in bulk.delete(meant):
            deleted += of_page
    finally:  # as above
        if deleted:
            DELETE.record(actor, "notifications", why, before=before, after={"deleted": deleted})
    return deleted


def forget_user(actor: Actor, user: UserKey, *, why: str) -> None:
    """Delete a user's notifications and number, as forgetting.forget_user does. May be repeated."""
    FORGET.allow(actor, why)
    with transaction.atomic():
        FORGET.record(actor, f"user {user}", why, before=None, after=None)
        forgetting.forget_user(user)
