"""The demo's users: they are notified, read, and ask for unread numbers, each of which is compared with COUNT(*).

One process acts for all of them, one action at a time. While it compares, no notification changes, so any difference is
drift. Flushes and reconciliation continue meanwhile; they must not change an unread number.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from typing import NamedTuple

from django.db import transaction

from demo.fakes.files import write_whole
from weir.notifications import inbox
from weir.notifications.reconciliation import drift
from weir.postgres.statements import Statement

USER_IDS = range(1, 201)
ACTIONS_PER_S = 100
AT_ONCE = 20  # users that are notified, or whose numbers are asked for, together
PAGE = 3
WRITE_EVERY_S = 0.2
SEED = 1


class UnreadRows(NamedTuple):
    """How many unread rows a user has: at least one."""

    user_id: int
    unread: int


UNREAD = Statement("unread", row=UnreadRows, commits=True)


class Users:
    """All users: their actions, and the counts of these."""

    def __init__(self, random: Random) -> None:
        self.notified = 0
        self.marked_read = 0
        self.unread_reads = 0
        self.drifted: set[int] = set()  # users whose number was ever wrong
        self._random = random

    def act(self) -> None:
        """Do one action, chosen at random by its frequency."""
        self._random.choices(tuple(ACTIONS), tuple(ACTIONS.values()))[0](self)

    def state(self) -> dict[str, object]:
        """Return the counts so far, for JSON."""
        return {
            "notified": self.notified,
            "marked_read": self.marked_read,
            "unread_reads": self.unread_reads,
            "drifted": sorted(self.drifted),
        }

    def notify_one(self) -> None:
        inbox.notify(self._one(), "order.shipped", "Your order is on its way")
        self.notified += 1

    def notify_some(self) -> None:
        self.notified += inbox.notify_many(self._some(), "news", "We are open on Sunday")

    def read_page(self) -> None:
        """Read a page of unread notifications, the newest."""
        user = self._one()
        page = inbox.page(user, limit=PAGE, unread_only=True)
        self.marked_read += inbox.mark_read(user, [notification.pk for notification in page])

    def read_all(self) -> None:
        self.marked_read += inbox.mark_all_read(self._one())

    def roll_back(self) -> None:
        """Notify and read in a transaction that is rolled back, which must change no number."""
        with transaction.atomic():
            inbox.notify_many(self._some(), "news", "We are closed on Sunday")
            inbox.mark_all_read(self._one())
            transaction.set_rollback(True)

    def delete(self) -> None:
        """Delete the newest notification, read or unread."""
        for notification in inbox.page(self._one(), limit=1):
            notification.delete()

    def ask(self) -> None:
        """Ask for some unread numbers, and check them."""
        self.drifted |= drifted(self._some())
        self.unread_reads += 1

    def _one(self) -> int:
        return self._random.choice(USER_IDS)

    def _some(self) -> list[int]:
        return self._random.sample(USER_IDS, AT_ONCE)


ACTIONS: dict[Callable[[Users], None], int] = {  # and how frequent each is, in percent
    Users.notify_one: 46,
    Users.notify_some: 2,
    Users.read_page: 23,
    Users.read_all: 3,
    Users.roll_back: 3,
    Users.delete: 3,
    Users.ask: 20,
}


def drifted(user_ids: Collection[int]) -> set[int]:
    """Return the users whose unread number is not the count of their unread rows, which must not change meanwhile.

    Checks the number that is shown, and also the counters: the shown number may have been counted from the rows.
    """
    shown = inbox.unread_counts(user_ids)
    rows = UNREAD(users=list(user_ids))
    counted = {row.user_id: row.unread for row in rows}
    return {user for user, number in shown.items() if number != counted.get(user, 0)} | drift.look(
        user_ids
    ).differing.keys()


def main() -> None:
    """Act at a steady rate until SIGTERM, and keep the file that the command line names up to date."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # waited for between two actions, it interrupts none
    state = Path(sys.argv[1])
    users = Users(Random(SEED))  # noqa: S311  no secret
    act_at = time.monotonic()
    write_at = 0.0
    while not signal.sigtimedwait({signal.SIGTERM}, max(0.0, act_at - time.monotonic())):
        act_at = max(act_at + 1 / ACTIONS_PER_S, time.monotonic())  # a late action is not made up for
        users.act()
        if time.monotonic() >= write_at:
            write_at = time.monotonic() + WRITE_EVERY_S
            write_whole(state, users.state())
    write_whole(state, users.state())
    os._exit(0)  # the interpreter's own shutdown would delay the end of the demo by half a second
