"""Queues the e-mails that tell notifications: digests of what is due, and those of single notifications.

The rows are given to their e-mail in the transaction that queues it. So a row waits, or an e-mail is to tell it, and a
process may be killed anywhere.
"""

import time
from collections.abc import Collection, Sequence
from uuid import uuid4

from django.db import transaction

from weir.digests import addresses
from weir.digests.emails import DIGEST, SINGLE
from weir.notifications.channels import telling
from weir.notifications.channels.kinds import EmailedRow
from weir.notifications.user_keys import UserKey
from weir.workers.mail import outbox
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState

USERS_AT_ONCE = 500  # whose digests one transaction queues


def gather_due(within_s: float) -> int:
    """Queue a digest for each user who has unread notifications that are due; return how many users had some.

    Works in short transactions; no other one begins after `within_s` seconds. Of two calls at the same time, one
    gathers. Raises database errors, and what the project's function for addresses raises.
    """
    users, give_up_at = 0, time.monotonic() + within_s
    while True:
        of_batch = _gather()
        users += of_batch
        if not of_batch or time.monotonic() >= give_up_at:
            return users


@transaction.atomic(durable=True)
def _gather() -> int:
    """Queue digests of one batch of users, and return how many these are.

    Users without an address are told on the page only. Each user has a row that is locked now, so the next batch has
    others.
    """
    if not telling.begin_gathering():
        return 0
    users = telling.users_due(USERS_AT_ONCE)
    found = addresses.of(users)
    if without := [user for user in users if user not in found]:
        telling.stay_on_page(without)
    if not found:
        return len(users)
    has_rows = {row.email_id: row.rows for row in telling.to_tell(found)}
    digests = _pending(found, has_rows)
    digests |= _queued(DIGEST, {user: address for user, address in found.items() if user not in digests})
    telling.gather(digests, has_rows=has_rows)
    return len(users)


def _pending(users: Collection[UserKey], emails: Collection[int]) -> dict[UserKey, int]:
    """Return the digests of these users, among these e-mails, that no mailer has claimed; none does until the commit.

    So each tells what is given to it in this transaction. While mailers stand still, a user has one digest, not many.
    """
    pending = Email.objects.filter(pk__in=emails, kind=DIGEST, state=EmailState.PENDING, ask_until=None)
    keys = {str(user): user for user in users}
    rows = pending.select_for_update(skip_locked=True).order_by("pk").only("context")
    return {keys[user]: email.pk for email in rows if (user := email.context.get("user", "")) in keys}


def _queued(kind: str, found: dict[UserKey, str]) -> dict[UserKey, int]:
    ids = outbox.queue_drafted(kind, [(address, uuid4().hex, {"user": str(user)}) for user, address in found.items()])
    return dict(zip(found, ids, strict=True))


def deliver(rows: Sequence[EmailedRow]) -> None:
    """Queue an e-mail for each of these notifications, in the caller's transaction; none for users without address."""
    found = addresses.of([row.user_id for row in rows])
    told = [row for row in rows if row.user_id in found]
    wanted = [(found[row.user_id], str(row.id), {"user": str(row.user_id)}) for row in told]
    ids = outbox.queue_drafted(SINGLE, wanted)
    telling.give({row.id: email_id for row, email_id in zip(told, ids, strict=True)})
