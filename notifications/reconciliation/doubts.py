"""Users with a doubt, because a delta was missed or late, or could not be judged. The oldest doubts come first."""

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
    """A user whose number may be wrong, the time since which it may be, and the stored number."""

    user_id: UserKey
    noted_at: datetime
    unread_count: int


CLEAR_DOUBTS = Statement("clear_doubts", commits=True)
NOTE_DOUBTS = Statement("note_doubts", commits=True)
OLDEST_DOUBTS = Statement("oldest_doubts", row=OldestDoubt, commits=True)


def pages() -> Pages:
    """Go through all doubts that exist now. Doubts that are noted again meanwhile are left to the next pass."""
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
    """Make the next pass look at these users. Until a pass can judge them, readers count their rows."""
    NOTE_DOUBTS(users=user_keys.array(users))


def clear(noted: Mapping[UserKey, datetime]) -> None:
    """End the doubts of users who were looked at, except doubts that were noted again since `noted`."""
    if noted:
        CLEAR_DOUBTS(users=user_keys.array(noted), noted=list(noted.values()))
