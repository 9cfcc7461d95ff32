"""A page: users to look at together, and what is recorded once they have been judged."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from weir.notifications.user_keys import UserKey

USERS = 20_000  # most users of a page, whose lists then take some megabytes
ROWS = 500_000  # most unread rows of a page's users; counting them takes about a second


class _OfUser(Protocol):
    @property
    def user_id(self) -> UserKey: ...
    @property
    def unread_count(self) -> int: ...


_Row = TypeVar("_Row", bound=_OfUser)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserPage:
    """Some users of a source.

    `reached` says how far the source has come with this page, as values for fields of `lease.Cursors`. It is stored
    when all users of this page, and of the pages before, have been judged. If a user's number is right, or was
    repaired, the user's doubt ends, unless it was noted again since the time in `noted`.
    """

    users: Collection[UserKey]
    compared: int  # how many users were compared, including those that need no look
    reached: Mapping[str, object] = field(default_factory=dict)
    noted: Mapping[UserKey, datetime] = field(default_factory=dict)


Pages = Iterator[UserPage]


def bounded(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the first of these rows, whose users have up to ROWS unread notifications according to stored numbers.

    If the first user alone has more, the rows of only this user are returned.
    """
    users: set[UserKey] = set()
    unread = 0
    for place, row in enumerate(rows):
        if row.user_id not in users:
            unread += max(0, row.unread_count)
            if users and unread > ROWS:
                return rows[:place]
            users.add(row.user_id)
    return rows
