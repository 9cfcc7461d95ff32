"""Users with a doubt: a delta is known to be missed or late. The oldest first."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from weir.notifications import user_keys
from weir.notifications.reconciliation import page
from weir.notifications.reconciliation.page import Pages, UserPage
from weir.notifications.user_keys import UserKey
from weir.postgres import moments
from weir.postgres.statements import Statement


class OldestDoubt(NamedTuple):
    """A user whose number may be wrong, since when, and the stored number."""

    user_id: UserKey
    noted_at: datetime
    unread_count: int


CLEAR_DOUBTS = Statement("clear_doubts", commits=True)
NOTE_DOUBTS = Statement("note_doubts", commits=True)
OLDEST_DOUBTS = Statement("oldest_doubts", row=OldestDoubt, commits=True)


def pages() -> Pages:
    """Go through all doubts that are there now; those that are noted again meanwhile are left to the next pass."""
    until = moments.now()
    after: OldestDoubt | None = None
    while True:
        place = {
            "until": until,
            "after": after and after.noted_at,
            "after_user": after and after.user_id,
            "most": page.USERS,
        }
        doubts = page.bounded(OLDEST_DOUBTS(**place))
        if not doubts:
            return
        noted = {doubt.user_id: doubt.noted_at for doubt in doubts}
        yield UserPage(users=noted.keys(), compared=len(noted), noted=noted)
        after = doubts[-1]


def note(users: Collection[UserKey]) -> None:
    """Make the next passes look at these users; readers count their rows until then."""
    NOTE_DOUBTS(users=user_keys.array(users))


def clear(noted: Mapping[UserKey, datetime]) -> None:
    """End the doubts of users who were looked at, except those that were noted again since."""
    if noted:
        CLEAR_DOUBTS(users=user_keys.array(noted), noted=list(noted.values()))
