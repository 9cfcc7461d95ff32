"""What operators change at unread numbers, with an entry in the audit trail."""

from collections.abc import Callable, Collection
from typing import Any, Final

from weir.notifications import reconcile
from weir.notifications.reconciliation.repairs import Repaired
from weir.notifications.removal import bulk
from weir.notifications.user_keys import UserKey
from weir.workers.audit.acting import Actor, AuditedAction

RECONCILE: Final = AuditedAction("unread.reconcile_user", "weir_notifications.change_reconciliation")
DELETE: Final = AuditedAction("unread.delete_notifications", "weir_notifications.delete_notification")
MOST_NAMED: Final = 100  # users, in an entry


def reconcile_user(actor: Actor, user: UserKey, *, why: str = "") -> int | None:
    """Compare a user's number with the rows, and repair it; returns by how much it changes, None where it was right.

    As reconcile_users.
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
    """Compare these users' numbers, or all, with the rows, and repair them, as reconcile.reconcile_users does.

    The repair is the one that the schedule would make, and commits by itself, user by user: the entry is written after
    it, and says by how much the first ones were changed.
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
    finally:  # what was repaired before an error, or Ctrl-C, has its entry, too
        if changed:
            RECONCILE.record(actor, target, why, before=None, after={"repaired": changed, "changed_by": changed_by})


def delete_notifications(actor: Actor, meant: bulk.Meant, *, why: str = "") -> int:
    """Delete the notifications that are meant, page by page, and count that; returns how many.

    Each page commits by itself: the entry is written after them.
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
