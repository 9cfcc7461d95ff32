"""The full scan: goes through all users, slice by slice, in the order of their ids.

It compares stored numbers with rows. Users whose number and rows differ need a closer look. So do users with live
deltas, because a delta can hide a drift if the sum of the two is 0.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from weir.notifications import counters, flush, user_keys
from weir.notifications.reconciliation import page
from weir.notifications.reconciliation.page import Pages, UserPage
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement


class Slice(NamedTuple):
    """The users of a slice, and which of them have a stored number that differs from their rows, or too many rows.

    `last_user` is None if no users follow those of the slice.
    """

    last_user: UserKey | None
    users: list[UserKey]
    differing: list[UserKey]


FLUSHED_USERS = Statement("flushed_users", returns=UserKey, commits=True)
SLICE_OF_USERS = Statement("slice_of_users", row=Slice, commits=True)


def pages(after: UserKey | None = None) -> Pages:
    """Go through all users after this one, in at least one slice."""
    while True:
        flushed = flush.highest_epoch()
        place = {"after": after, "users": page.USERS, "rows": page.ROWS}
        [found] = SLICE_OF_USERS(**place)
        suspects = {*found.differing, *_live(found.users), *_flushed_since(flushed, found.users)}
        is_last = found.last_user is None
        yield UserPage(
            users=suspects,
            compared=len(found.users),
            reached={"scanned_until": found.last_user, "scan_done": is_last},
        )
        if is_last:
            return
        after = found.last_user


def _live(users: Sequence[UserKey]) -> set[UserKey]:
    """Return which of the users have live deltas."""
    live: set[UserKey] = set()
    for start in range(0, len(users), counters.AT_ONCE):
        live.update(*counters.peek(users[start : start + counters.AT_ONCE]).deltas.values())
    return live


def _flushed_since(epoch: int, users: Collection[UserKey]) -> set[UserKey]:
    """Return the users whose deltas were live when the slice was compared, and were flushed since this epoch."""
    if flush.highest_epoch() == epoch:
        return set()
    return set(FLUSHED_USERS(users=user_keys.array(users), epoch=epoch))
