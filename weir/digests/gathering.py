"""Queues the e-mails that tell notifications: digests of what is due, and those of single notifications.

1. Look at which users have something due; no lock is kept.
2. Ask for their addresses, outside of transactions: the project's function may be slow, and may raise.
3. In one transaction, lock what is still due of these users, queue their digests, and give the rows to them. So a row
   waits, or an e-mail is to tell it, and a process may be killed anywhere.

What was read, given or forgotten between the steps is not due any more in step 3.
"""

import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final
from uuid import uuid4

from django.db import transaction

from weir.digests import addresses
from weir.digests.addresses import Found
from weir.digests.emails import DIGEST, SINGLE
from weir.notifications.channels import telling
from weir.notifications.channels.kinds import EmailedRow
from weir.notifications.user_keys import UserKey
from weir.workers.mail import outbox
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState

USERS_AT_ONCE: Final = 500  # whose digests one transaction queues
DELIVERING_S: Final = 1.0  # how long a caller who notifies waits for addresses, apart from the call that is running
# How long a user waits at most for whom the project's function raises; and one about whom nothing is known yet.
FAILING_WAIT: Final = timedelta(hours=1)
LEFT_WAIT: Final = timedelta(minutes=1)


def gather_due(within_s: float) -> int:
    """Queue a digest for each user who has unread notifications that are due; return how many users had some.

    Works in short transactions; no other one begins after `within_s` seconds. Of two calls at the same time, one
    gathers. Users for whom the project's function for addresses raises wait for an hour at most, behind the others;
    the log says so. Raises database errors.
    """
    users, give_up_at, failed = 0, time.monotonic() + within_s, Found()
    try:
        while due := telling.users_due(USERS_AT_ONCE):
            found = addresses.of(due, give_up_at - time.monotonic())
            failed.note(found)
            gathered = _gather(found)
            users += gathered
            if not gathered or time.monotonic() >= give_up_at:
                break
    finally:
        failed.say()
    return users


@transaction.atomic(durable=True)
def _gather(found: Found) -> int:
    """Queue digests of one batch of users, and return for how many something was done.

    Users without an address are told on the page only. Each user has a row that is locked now, so no digest is empty.
    """
    if not telling.begin_gathering():
        return 0
    due = telling.still_due([*found.addresses, *found.without])
    if without := due.intersection(found.without):
        telling.stay_on_page(without)
    if found.failing:
        telling.postpone(found.failing, FAILING_WAIT)
    if found.left:
        telling.postpone(found.left, LEFT_WAIT)
    if told := {user: address for user, address in found.addresses.items() if user in due}:
        _queue_digests(told)
    return len(due) + len(found.failing) + len(found.left)


def _queue_digests(addresses_of: dict[UserKey, str]) -> None:
    has_rows = {row.email_id: row.rows for row in telling.to_tell(addresses_of)}
    digests = _pending(addresses_of, has_rows)
    digests |= _queued({user: address for user, address in addresses_of.items() if user not in digests})
    telling.gather(digests, has_rows=has_rows)


def _pending(users: Collection[UserKey], emails: Collection[int]) -> dict[UserKey, int]:
    """Return the digests of these users, among these e-mails, that no mailer has claimed; none does until the commit.

    So each tells what is given to it in this transaction. While mailers stand still, a user has one digest, not many.
    """
    pending = Email.objects.filter(pk__in=emails, kind=DIGEST, state=EmailState.PENDING, ask_until=None)
    keys = {str(user): user for user in users}
    rows = pending.select_for_update(skip_locked=True).order_by("pk").only("context")
    return {keys[user]: email.pk for email in rows if (user := email.context.get("user", "")) in keys}


def _queued(addresses_of: dict[UserKey, str]) -> dict[UserKey, int]:
    wanted = [(address, uuid4().hex, {"user": str(user)}) for user, address in addresses_of.items()]
    return dict(zip(addresses_of, outbox.queue_drafted(DIGEST, wanted), strict=True))


def deliver(rows: Sequence[EmailedRow]) -> None:
    """Queue an e-mail for each of these notifications, in the caller's transaction; none for users without address.

    The caller wants the notifications written, whatever becomes of the e-mails. So if the project's function raises for
    some users, theirs are left to their next digest, which is due at once.
    """
    found = addresses.of([row.user_id for row in rows], DELIVERING_S)
    found.say()
    told = [row for row in rows if row.user_id in found.addresses]
    wanted = [(found.addresses[row.user_id], str(row.id), {"user": str(row.user_id)}) for row in told]
    ids = outbox.queue_drafted(SINGLE, wanted)
    telling.give({row.id: email_id for row, email_id in zip(told, ids, strict=True)})
