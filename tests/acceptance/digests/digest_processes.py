"""What processes do that notify users, read, and send digests, to be killed."""

import random
import time
from datetime import timedelta
from pathlib import Path

from tests.acceptance.processes import die_around, goes_on  # isort: skip  first, as it sets Django up

from django.db import close_old_connections, transaction

from tests.acceptance.mail.mail_processes import AT_LENGTH, keep_sending, keep_session, rest_after
from weir.digests import gathering
from weir.notifications import inbox
from weir.notifications.channels import kinds, telling
from weir.notifications.channels.kinds import NotificationKind
from weir.notifications.models import Channel
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import leases
from weir.workers.orders.models import Order

NEWS = "news"
GATHER = "after gather"
STEPS = ("after begin", "before record", "before begin", "after record", GATHER)  # first what takes longest to settle
# How the mail server treats a user's e-mails (see demo.fakes.mail_server), by the user's key. At length most are plain:
# after three failures in a row a mailer leaves the server alone for seconds, which is to happen now and then only.
ODD_WORDS = ("cut-before-dot", "closing", "greylist-1", "refuse-content", "cut-accepted")
PLAIN_BETWEEN = 8 if AT_LENGTH else 1
WORDS = [word for odd in ODD_WORDS for word in (*["plain"] * PLAIN_BETWEEN, odd)]
REST_S = 0.05
MOST_IN_HAND = 10
# Of each of two writers: at length, mailers keep up, so that a user gets several digests and not one of everything.
WRITE_EVERY_S = 0.004 if AT_LENGTH else 0.0005
# Readers rest: with few users, one that never does leaves digests nothing to tell; with many, it takes the processors.
READ_EVERY_S = 0.01 if AT_LENGTH else 0.06


def address(user: int) -> str:
    return f"{WORDS[user % len(WORDS)]}.u{user}@customers.example"


def register() -> None:
    """Register the kind of notification, and the users' addresses, in this process."""
    kinds._kinds.setdefault(NEWS, NotificationKind(channel=Channel.DIGEST, digest_after=timedelta(milliseconds=300)))
    kinds.address_by(lambda users: {user: address(user) for user in users})


def notify_users(users: range, each: int, seed: int) -> None:
    """Write this many notifications for each user, in an order of chance, some for many users at once."""
    register()
    keep_session()
    chance = random.Random(seed)  # noqa: S311  not for secrets
    for number in range(each):
        left = chance.sample(users, len(users))
        while left:
            these = [left.pop() for _ in range(min(len(left), chance.choice([1, 1, 5, 50])))]
            inbox.notify_many(these, NEWS, f"{seed}-{number}")
            time.sleep(WRITE_EVERY_S * len(these))


def keep_reading(users: range, seed: int, stop: Path) -> None:
    """Read some of what users' pages show, until `stop` exists; write what was really read on the page to a table.

    Most are users whose digests mailers have in hand: one may begin while the page is read. The table is `Order`, which
    the test does not use otherwise: its row is committed with the read.
    """
    register()
    keep_session()
    chance = random.Random(seed)  # noqa: S311  not for secrets
    while goes_on(stop):
        user = chance.choice([chance.choice(users), *told_soon()])
        for row in inbox.page(user, limit=chance.choice([1, 3]), unread_only=True):
            with transaction.atomic():
                if inbox.mark_read(user, [row.pk]):
                    Order.objects.create(number=str(row.pk), customer_email="page@customers.example")
        close_old_connections()
        time.sleep(READ_EVERY_S)


def told_soon() -> list[int]:
    """Return some users whose digests mailers have claimed."""
    claimed = Email.objects.filter(state=EmailState.CLAIMED).values_list("context", flat=True)
    return [int(context["user"]) for context in claimed[:MOST_IN_HAND]]


def keep_gathering(stop: Path, die_at: str = "") -> None:
    """Queue what is due again and again, until `stop` exists."""
    register()
    keep_session()
    if die_at:
        die_around(telling, "gather", "after")
    while goes_on(stop):
        rest_after(gathering.gather_due(1.0))
        leases.end_silent()
        leases.take_back_abandoned()
        close_old_connections()
        time.sleep(REST_S)


def keep_mailing(stop: Path, die_at: str = "") -> None:
    """Send what is due again and again, until `stop` exists."""
    register()
    keep_sending(stop, die_at)
