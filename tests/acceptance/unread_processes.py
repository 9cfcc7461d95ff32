"""Processes that write, read, flush and heal unread numbers, to be killed. They are forked: a start costs little.

`die_at` names a step at which a process kills itself, with SIGKILL. Steps are found by wrapping what the code calls.
"""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn

import django

django.setup()  # in pytest it is set up already, but not where processes are forked from

from django.conf import settings  # noqa: E402  once Django is set up
from django.db import connection, transaction  # noqa: E402

from benchmarks.published_unread import PublishedUnread  # noqa: E402
from notifications import counters, flush, heal, inbox  # noqa: E402
from notifications.models import Notification  # noqa: E402
from postgres import statements  # noqa: E402

FLUSH_STEPS = ("before seal", "after seal", "before COMMIT", "after COMMIT", "before drop", "after drop")
WRITE_STEPS = ("before add", "after add")
PUBLISHED_STEPS = ("before _take", "after _take", "before _store", "after _store")
HALF = 0.5
ORPHANED = 1  # the parent of those whose parent is gone


def count_rows(users: range) -> dict[int, int]:
    """Return the truth: how many notifications of each user are unread."""
    return dict.fromkeys(users, 0) | dict(Notification.objects.filter(user_id__in=users).numbers())


def write(users: range, seed: int, stop: Path, die_at: str = "") -> None:
    """Do random things to random users' notifications, until `stop` exists."""
    if die_at:
        _wrap(counters, "add", die_at.partition(" ")[0])
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
            statements.run_within = partial(_apply_and_die, statements.run_within)
        elif die_at == "after COMMIT":
            _wrap(flush, "_apply", when)
        else:
            _wrap(counters, what, when)
    while goes_on(stop):
        try:
            flush.flush_sealed()
        except counters.Unreachable:  # the machine is busy
            time.sleep(counters.LEFT_ALONE_S)


def keep_healing(stop: Path) -> None:
    """Heal again and again, until `stop` exists."""
    while goes_on(stop):
        try:
            heal.heal()
        except counters.Unreachable:
            time.sleep(counters.LEFT_ALONE_S)
        time.sleep(0.5)


def keep_reading(users: range, stop: Path) -> None:
    """Read everybody's numbers again and again, until `stop` exists."""
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
        _wrap(PublishedUnread, step, when)
    published = PublishedUnread()
    while goes_on(stop):
        published.flush()


def _begin(database: str, redis_url: str, role: Callable[..., None], *arguments: object, **options: object) -> None:
    connection.settings_dict["NAME"] = database
    settings.REDIS_URL = redis_url
    role(*arguments, **options)


def goes_on(stop: Path) -> bool:
    """Tell whether to go on: nobody said stop, and those who started us are there."""
    return os.getppid() != ORPHANED and not stop.exists()


def _wrap(owner: Any, name: str, die: str) -> None:
    """Have the process die before or after it calls this function."""
    call = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if die == "before":
            _die()
        result = call(*arguments, **options)
        if (name == "seal" and result is None) or (name == "_apply" and not result.epochs):
            return result  # somebody else has done it
        _die()

    setattr(owner, name, wrapped)


def _linger(owner: Any, name: str, seconds: float) -> None:
    """Have the process wait up to so long before and after it calls this function."""
    call = getattr(owner, name)

    def wrapped(*arguments: Any) -> Any:
        time.sleep(random.uniform(0, seconds))  # noqa: S311  not for secrets
        result = call(*arguments)
        time.sleep(random.uniform(0, seconds))  # noqa: S311  as above
        return result

    setattr(owner, name, wrapped)


def _apply_and_die(run: Callable[..., Any], package: str, name: str, parameters: dict[str, object], **how: Any) -> Any:
    """Run the statement, and die if it has written an epoch, which is not committed yet."""
    rows = run(package, name, parameters, **how)
    if name == "apply" and rows[0].epochs:
        _die()
    return rows


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Processes:
    """Starts processes and kills them; none is left at the end."""

    def __init__(self, folder: Path) -> None:
        self.stop = folder / "stop"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._running: list[ForkServerProcess] = []

    def start(self, role: Callable[..., None], *arguments: object, **options: object) -> ForkServerProcess:
        """Start a process that does this."""
        database, redis_url = str(connection.settings_dict["NAME"]), settings.REDIS_URL
        process = self._context.Process(target=_begin, args=(database, redis_url, role, *arguments), kwargs=options)
        process.start()
        self._running.append(process)
        return process

    def kill(self, process: ForkServerProcess) -> None:
        """End a process with SIGKILL."""
        process.kill()
        self.gone(process)

    def gone(self, process: ForkServerProcess) -> None:
        """Wait until a process was killed, by whomever."""
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        self._running.remove(process)

    def finish(self) -> None:
        """Have all others end by themselves."""
        self.stop.touch()
        for process in self._running:
            process.join(60)
            assert process.exitcode == 0
        self._running.clear()
        self.stop.unlink()

    def close(self) -> None:
        """Kill what is left."""
        for process in self._running:
            process.kill()
            process.join()
