"""What operators change at unread numbers, with an entry in the audit trail."""

from collections.abc import Callable, Collection
from typing import Any, Final

from notifications import reconcile
from notifications.reconciliation.repairs import Repaired
from notifications.user_keys import UserKey
from workers.audit.acting import Action, Actor

RECONCILE: Final = Action("unread.reconcile_user", "notifications.change_reconciliation")
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
