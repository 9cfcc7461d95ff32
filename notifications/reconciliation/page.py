"""A page: users to look at together, and what is recorded once this is done."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from weir.notifications.user_keys import UserKey

USERS = 20_000  # of a page: its lists take some megabytes
ROWS = 500_000  # unread rows of a page's users: they are counted in about a second


class _OfUser(Protocol):
    @property
    def user_id(self) -> UserKey: ...
    @property
    def unread_count(self) -> int: ...


_Row = TypeVar("_Row", bound=_OfUser)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserPage:
    """Some users of a source.

    `reached` says how far the source has come with this page, by fields of `lease.Cursors`. It is stored when all users
    of this page, and of the pages before, have been judged. The doubt of a user who is right, or was repaired, ends if
    it was `noted` at the given time.
    """

    users: Collection[UserKey]
    compared: int  # users, including those who need no look
    reached: Mapping[str, object] = field(default_factory=dict)
    noted: Mapping[UserKey, datetime] = field(default_factory=dict)


Pages = Iterator[UserPage]


def bounded(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the first of these rows, until their users have about ROWS unread notifications by their stored numbers.

    A user who has more is returned, too, but as the only one.
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
