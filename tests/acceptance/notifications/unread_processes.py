"""What processes do that write, read, flush and reconcile unread numbers, to be killed.

`die_at` names a step at which a process kills itself, with SIGKILL.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.acceptance.processes import die, die_around, goes_on  # isort: skip  first, as it sets Django up

from django.db import transaction

from benchmarks.unread.published import PublishedUnread
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.models import Notification
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.redis_link import calls

FLUSH_STEPS = ("before seal", "after seal", "before COMMIT", "after COMMIT", "before drop", "after drop")
WRITE_STEPS = ("before add", "after add")
PUBLISHED_STEPS = ("before _take", "after _take", "before _store", "after _store")
HALF = 0.5


def count_rows(users: range) -> dict[int, int]:
    """Return the truth: how many notifications of each user are unread."""
    return dict.fromkeys(users, 0) | dict(Notification.objects.filter(user_id__in=users).numbers())


def write(users: range, seed: int, stop: Path, die_at: str = "") -> None:
    """Do random things to random users' notifications, until `stop` exists."""
    if die_at:
        die_around(counters, "add", die_at.partition(" ")[0])
    chance = random.Random(seed)  # noqa: S311  not for secrets
    while goes_on(stop):
        chance.choice(WRITES)(chance.choice(users), users, chance)


def _tell(user: int, _users: range, _chance: random.Random) -> None:
    inbox.notify(user, "news", "Hello")


def _tell_many(_user: int, users: range, chance: random.Random) -> None:
    inbox.notify_many(chance.sample(users, 10), "news", "Hello, all")


def _read_some(user: int, _users: range, chance: random.Random) -> None:
    shown = [row.pk for row in inbox.page(user, unread_only=True)]
    inbox.mark_read(user, chance.sample(shown, len(shown) // 2))


def _unread_some(user: int, _users: range, chance: random.Random) -> None:
    inbox.mark_unread(user, [row.pk for row in inbox.page(user, limit=5) if chance.random() < 0.3])


def _read_all(user: int, _users: range, _chance: random.Random) -> None:
    inbox.mark_all_read(user)


def _delete_some(user: int, _users: range, _chance: random.Random) -> None:
    newest = [row.pk for row in inbox.page(user, limit=3)]
    Notification.objects.filter(pk__in=newest).delete()


def _give_away(user: int, users: range, chance: random.Random) -> None:
    newest = [row.pk for row in inbox.page(user, limit=2)]
    Notification.objects.filter(pk__in=newest).update(user_id=chance.choice(users))


def _half_rolled_back(user: int, users: range, chance: random.Random) -> None:
    with suppress(LookupError), transaction.atomic():
        inbox.notify(user, "news", "Stays, perhaps")
        with suppress(LookupError), transaction.atomic():
            inbox.notify(user, "news", "Goes")
            inbox.mark_all_read(user)
            _fail()
        if chance.random() < HALF:
            _fail()
        inbox.notify(chance.choice(users), "news", "Stays")


def _fail() -> NoReturn:
    raise LookupError


WRITES = (
    *(_tell, _tell, _tell_many, _read_some, _read_some, _unread_some),
    *(_read_all, _delete_some, _give_away, _half_rolled_back),
)


def keep_flushing(stop: Path, die_at: str = "", *, linger_s: float = 0.0) -> None:
    """Flush again and again, until `stop` exists; linger between the steps of each flush."""
    if linger_s:
        for step in ("read", "drop"):
            _linger(counters, step, linger_s)
    if die_at:
        when, what = die_at.split(" ")
        if die_at == "before COMMIT":
            statements.execute = partial(_apply_and_die, statements.execute)
        elif die_at == "after COMMIT":
            die_around(flush, "_apply", when, lambda _, applied: applied.epochs)
        elif die_at == "after seal":
            die_around(counters, what, when, lambda _, epoch: epoch is not None)  # else another flusher has done it
        else:
            die_around(counters, what, when)
    while goes_on(stop):
        try:
            flush.flush_sealed()
        except counters.RedisUnreachable:  # the machine is busy
            time.sleep(calls.LEFT_ALONE_S)


def keep_reconciling(stop: Path) -> None:
    """Run one pass after the other, until `stop` exists."""
    while goes_on(stop):
        try:
            reconcile.run_pass()
        except counters.RedisUnreachable:
            time.sleep(calls.LEFT_ALONE_S)
        time.sleep(0.5)


def keep_reading(users: range, stop: Path) -> None:
    """Read all numbers again and again, until `stop` exists."""
    while goes_on(stop):
        inbox.unread_counts(users)


def read_known(users: range, seed: int, known: Path, told: Path, stop: Path, *, linger_s: float) -> None:
    """Read some users' numbers while `known` says what they are; report reads and wrong reads in `told`.

    `known` holds the number, or nothing while it changes. A read counts if the number was the same before and after.
    """
    if linger_s:
        _linger(counters, "peek", linger_s)
    chance = random.Random(seed)  # noqa: S311  not for secrets
    seen: Counter[str] = Counter()
    while goes_on(stop):
        before = known.read_text()
        numbers = inbox.unread_counts(chance.sample(users, 10))
        if before and known.read_text() == before:
            seen["reads"] += len(numbers)
            seen.update(
                f"user {user}: {got} instead of {before}" for user, got in numbers.items() if got != int(before)
            )
        told.write_text(repr(dict(seen)))


def publish(users: range, seed: int, stop: Path) -> None:
    """Write by the published algorithm, which counts by itself, until `stop` exists."""
    chance = random.Random(seed)  # noqa: S311  not for secrets
    published = PublishedUnread()
    while goes_on(stop):
        user = chance.choice(users)
        with transaction.atomic():
            inbox.notify(user, "news", "Hello")
            published.add(user, 1)
        if chance.random() < HALF:
            with transaction.atomic():
                published.add(user, -inbox.mark_all_read(user))


def keep_flushing_as_published(stop: Path, die_at: str = "") -> None:
    """Flush by the published algorithm again and again, until `stop` exists."""
    if die_at:
        when, step = die_at.split(" ")
        die_around(PublishedUnread, step, when)
    published = PublishedUnread()
    while goes_on(stop):
        published.flush()


def _linger(owner: Any, name: str, seconds: float) -> None:
    """Make the process wait for up to this time before and after it calls this function."""
    call = getattr(owner, name)

    def wrapped(*arguments: Any) -> Any:
        time.sleep(random.uniform(0, seconds))  # noqa: S311  not for secrets
        result = call(*arguments)
        time.sleep(random.uniform(0, seconds))  # noqa: S311  as above
        return result

    setattr(owner, name, wrapped)


def _apply_and_die(execute: Callable[..., Any], statement: Statement[Any], *how: Any) -> Any:
    """Execute the statement, and die if it has written an epoch, which is not committed yet."""
    rows = execute(statement, *how)
    if statement.name == "apply_epoch" and rows[0].epochs:
        die()
    return rows
