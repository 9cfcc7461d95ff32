"""Which e-mail tells a notification: each is read on the page or told by one e-mail, never both, never neither.

A row is told in the transaction in which its e-mail begins (docs/explanation/counted.md, "Told by digest"):

1. `gather`: unread rows that wait for a digest are given to an e-mail, which is queued in the same transaction.
2. `drafted`: before an attempt, a mailer reads those of them that are still unread, and renders the e-mail.
3. `tell`: in the transaction of `begin`, under row locks, they are marked as read. If they are not exactly the rows of
   step 2, because one was read meanwhile, nothing is begun: the mailer goes back to step 2.
4. `release`: if the e-mail was certainly not accepted, they are unread again.

Two columns of a row say where it is:

- neither `digest_due_at` nor `digest_id`: on the page only;
- `digest_due_at`: it waits for a digest;
- both: the e-mail `digest_id` is to tell it, unless somebody reads it before;
- `digest_id`: that e-mail has told it.

Unread numbers change with the rows. Each function works in the caller's transaction.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import DEFAULT_DB_ALIAS, transaction

from weir.notifications import changes, user_keys
from weir.notifications.changes import LOCK_READ_MARKS
from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement, bigints

MOST_TOLD: Final = 200  # notifications that one e-mail tells; a later digest tells the others
ROWS_AT_ONCE: Final = 5_000  # due rows that are read to find their users


class ToTell(NamedTuple):
    """An e-mail that is to tell a user's notifications, and how many."""

    user_id: UserKey
    email_id: int
    rows: int


class ToldRow(NamedTuple):
    """What an e-mail says of a notification."""

    id: int
    kind: str
    title: str
    body: str
    url: str
    created_at: datetime


class Released(NamedTuple):
    """A user, and how many of the user's notifications are unread again."""

    user_id: UserKey
    unread: int


BEGIN_GATHERING = Statement("begin_gathering", returns=bool, commits=False)
DIGESTS_HAVE_WORK = Statement("digests_have_work", returns=bool, commits=False, prepare=True)
DRAFTED = Statement("drafted", row=ToldRow, commits=False, prepare=True)
GATHER = Statement("gather", returns=UserKey, commits=False)
GATHER_ROWS = Statement("gather_rows", commits=False)
POSTPONE = Statement("postpone", commits=False)
RELEASE = Statement("release", row=Released, commits=False)
STILL_DUE = Statement("still_due", returns=UserKey, commits=False)
TELL = Statement("tell", returns=int, commits=False, prepare=True)
TO_TELL = Statement("to_tell", row=ToTell, commits=False)
USERS_DUE = Statement("users_due", returns=UserKey, commits=False)
STAY_WITHOUT_ADDRESS = Statement("stay_without_address", commits=False)


def begin_gathering() -> bool:
    """Return whether no other transaction gathers; others are told so until this transaction ends."""
    [begins] = BEGIN_GATHERING()
    return begins


def users_due(most: int) -> list[UserKey]:
    """Return up to `most` users who have unread notifications that a digest is to tell now.

    What others have locked is left. In a transaction, this locks rows, too.
    """
    return USERS_DUE(most=most, rows=ROWS_AT_ONCE)


def still_due(users: Collection[UserKey]) -> set[UserKey]:
    """Return those of these users for whom `users_due` would do so now, and lock one row of each."""
    return set(STILL_DUE(users=user_keys.array(users)))


def to_tell(users: Collection[UserKey]) -> list[ToTell]:
    """Return the e-mails that are to tell unread notifications of these users, and have not begun to."""
    return TO_TELL(users=user_keys.array(users))


def gather(emails: Mapping[UserKey, int], *, has_rows: Mapping[int, int]) -> None:
    """Give each user's unread notifications that wait for a digest to the e-mail with this id, MOST_TOLD at most.

    Of these, `has_rows` says how many an e-mail is to tell already. What is not due yet is told, too, and what is due
    and has no place waits for another hour at least: so the user's next digest comes later.
    """
    most = [max(MOST_TOLD - has_rows.get(email_id, 0), 0) for email_id in emails.values()]
    full = GATHER(users=user_keys.array(emails), emails=bigints(emails.values()), most=bigints(most))
    if full:
        postpone(full)


def postpone(users: Collection[UserKey], at_most: timedelta | None = None) -> None:
    """Let what is due of these users wait: for half of `at_most` to all of it, by chance.

    Without `at_most`, it waits as long again as until now, an hour at least.
    """
    POSTPONE(users=user_keys.array(users), at_most=at_most)


def give(emails: Mapping[int, int]) -> None:
    """Give each of these notifications, by id, to the e-mail with this id."""
    GATHER_ROWS(ids=bigints(emails), emails=bigints(emails.values()))


def stay_on_page(users: Collection[UserKey]) -> None:
    """Let no digest tell what these users have not read until now: they have no address."""
    STAY_WITHOUT_ADDRESS(users=user_keys.array(users))


def drafted(email_id: int, user_id: UserKey) -> list[ToldRow]:
    """Return the unread notifications of this user that the e-mail is to tell, in the order of their ids."""
    return DRAFTED(email=email_id, user=user_id)


def tell(email_id: int, user_id: UserKey, ids: Sequence[int]) -> bool:
    """Mark as read what the e-mail tells, if exactly these notifications are still unread; otherwise return False.

    If it returns False, the caller must roll its transaction back. Concurrent calls of `mark_read`, `mark_all_read` and
    the like wait for the end of the transaction, or this call waits for them: whoever comes second finds the row read.
    """
    LOCK_READ_MARKS(user=user_id)
    told = TELL(email=email_id, user=user_id)
    changes.record({user_id: -len(told)}, using=DEFAULT_DB_ALIAS)
    return set(told) == set(ids)


def release(email_ids: Collection[int], *, is_over: bool, by_digest: bool) -> None:
    """Make unread again what these e-mails have told: they were certainly not accepted.

    If they are over, they tell nothing any more, and what they were to tell waits for the user's next digest: for as
    long again as it has waited until now, an hour at least.
    """
    with transaction.atomic():
        unread = Counter[UserKey]()
        for row in RELEASE(emails=list(email_ids), is_over=is_over, by_digest=by_digest):
            unread[row.user_id] += row.unread
        changes.record(unread, using=DEFAULT_DB_ALIAS)
