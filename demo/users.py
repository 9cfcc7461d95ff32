"""The demo's users: they are notified, read, and ask how much is unread; every answer is compared with COUNT(*).

They do one thing at a time, in one process: when a number is compared, nothing of theirs is under way, and whatever
differs is drift. Flushes and reconciliation go on meanwhile, which must not show.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random

from django.db import transaction

from demo.fakes.files import write_whole
from notifications import drift, inbox
from postgres import statements

EVERYBODY = range(1, 201)
ACTIONS_PER_S = 100
AT_ONCE = 20  # users who are notified, or asked about, together
PAGE = 3
SAY_EVERY_S = 0.2
SEED = 1


class Users:
    """What they do, and what came of it."""

    def __init__(self, random: Random) -> None:
        self.notified = 0
        self.marked_read = 0
        self.unread_reads = 0
        self.drifted: set[int] = set()  # who was ever shown a wrong number
        self._random = random

    def act(self) -> None:
        """Do one of the things that users do."""
        self._random.choices(tuple(ACTIONS), tuple(ACTIONS.values()))[0](self)

    def state(self) -> dict[str, object]:
        """Return what came of it so far, as JSON has it."""
        return {
            "notified": self.notified,
            "marked_read": self.marked_read,
            "unread_reads": self.unread_reads,
            "drifted": sorted(self.drifted),
        }

    def notify_one(self) -> None:
        """Tell one user something."""
        inbox.notify(self._somebody(), "order.shipped", "Your order is on its way")
        self.notified += 1

    def notify_some(self) -> None:
        """Tell some users the same."""
        self.notified += inbox.notify_many(self._some(), "news", "We are open on Sunday")

    def read_page(self) -> None:
        """Read the newest that is unread."""
        user = self._somebody()
        page = inbox.page(user, limit=PAGE, unread_only=True)
        self.marked_read += inbox.mark_read(user, [notification.pk for notification in page])

    def read_all(self) -> None:
        """Mark everything as read."""
        self.marked_read += inbox.mark_all_read(self._somebody())

    def roll_back(self) -> None:
        """Notify and read in a transaction that is rolled back: nobody's number may change."""
        with transaction.atomic():
            inbox.notify_many(self._some(), "news", "We are closed on Sunday")
            inbox.mark_all_read(self._somebody())
            transaction.set_rollback(True)

    def delete(self) -> None:
        """Delete the newest, which may be unread."""
        for notification in inbox.page(self._somebody(), limit=1):
            notification.delete()

    def ask(self) -> None:
        """Ask how much is unread, and check the answer."""
        self.drifted |= drifted(self._some())
        self.unread_reads += 1

    def _somebody(self) -> int:
        return self._random.choice(EVERYBODY)

    def _some(self) -> list[int]:
        return self._random.sample(EVERYBODY, AT_ONCE)


ACTIONS: dict[Callable[[Users], None], int] = {  # and how often they are done, in percent
    Users.notify_one: 46,
    Users.notify_some: 2,
    Users.read_page: 23,
    Users.read_all: 3,
    Users.roll_back: 3,
    Users.delete: 3,
    Users.ask: 20,
}


def drifted(user_ids: Collection[int]) -> set[int]:
    """Return the users whose unread number is not that of their unread rows. Nobody may be changing these.

    Both the number that is shown, and what the counters hold: that shown could be counted from the rows.
    """
    shown = inbox.unread_counts(user_ids)
    rows = statements.run("demo", "unread", {"users": list(user_ids)})
    counted = {row.user_id: row.unread for row in rows}
    return {user for user, number in shown.items() if number != counted.get(user, 0)} | drift.look(
        user_ids
    ).differing.keys()


def main() -> None:
    """Act at a steady rate until SIGTERM; the file that the command line names always says what came of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # asked for between two actions, it cuts none off
    state = Path(sys.argv[1])
    users = Users(Random(SEED))  # noqa: S311  no secret
    act_at = time.monotonic()
    say_at = 0.0
    while not signal.sigtimedwait({signal.SIGTERM}, max(0.0, act_at - time.monotonic())):
        act_at = max(act_at + 1 / ACTIONS_PER_S, time.monotonic())  # who is late does not hurry
        users.act()
        if time.monotonic() >= say_at:
            say_at = time.monotonic() + SAY_EVERY_S
            write_whole(state, users.state())
    write_whole(state, users.state())
    os._exit(0)  # Python would take half a second to end, and everybody waits
