"""What operators change at unread numbers, with an entry in the audit trail."""

from typing import Final

from notifications import reconcile
from notifications.user_keys import UserKey
from workers.audit.acting import Action, Actor

RECONCILE: Final = Action("unread.reconcile_user", "notifications.change_reconciliation")


def reconcile_user(actor: Actor, user: UserKey, *, why: str = "") -> int | None:
    """Compare a user's number with the rows, and repair it; returns by how much it was wrong, None where it was right.

    The repair is the one that the schedule would make, and commits by itself: the entry is written after it.
    """
    RECONCILE.allow(actor, why)
    drifts: list[int] = []
    reconcile.reconcile_users([user], on_drift=lambda _user, drift: drifts.append(drift))
    wrong_by = drifts[0] if drifts else None
    RECONCILE.record(actor, f"user {user}", why, before=None, after={"wrong_by": wrong_by})
    return wrong_by
