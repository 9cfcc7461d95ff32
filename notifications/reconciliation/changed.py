"""Users whose notifications changed lately: the process that changed them may have died before it sent the delta."""

from datetime import datetime, timedelta
from typing import NamedTuple

from weir.notifications.reconciliation import page
from weir.notifications.reconciliation.lease import Cursors
from weir.notifications.reconciliation.page import Pages, UserPage
from weir.notifications.user_keys import UserKey
from weir.postgres import moments
from weir.postgres.statements import Statement

SETTLED_S = 30.0  # age at which changes are looked at; the full scan finds those of longer transactions


class Change(NamedTuple):
    """A notification that changed, its user, and the user's stored number."""

    changed_at: datetime
    id: int
    user_id: UserKey
    unread_count: int


CHANGED_USERS = Statement("changed_users", row=Change, commits=True)


def pages(cursors: Cursors) -> Pages:
    """Go through the changes after the cursor, in the order of time and id.

    The changes of one statement have one time, and may fill many pages: hence the id. Changes that become old enough
    meanwhile are left to the next pass.
    """
    until = moments.now() - timedelta(seconds=SETTLED_S)
    changed_at, last_id = cursors.changes_until, cursors.changes_until_id
    while True:
        place = {"after": changed_at, "after_id": last_id, "until": until, "most": page.USERS}
        changes = page.bounded(CHANGED_USERS(**place))
        if not changes:
            return
        changed_at, last_id = changes[-1].changed_at, changes[-1].id
        users = list(dict.fromkeys(change.user_id for change in changes))
        yield UserPage(
            users=users,
            compared=len(users),
            reached={"changes_until": changed_at, "changes_until_id": last_id},
        )
