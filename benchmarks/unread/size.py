"""What counting costs in a large installation, before and after statements that change very many notifications.

Each user has ten notifications, the newest two of them unread. Three changes are made without the ORM:

- a COPY for a tenth of the users, after which one delta is lost;
- an UPDATE that marks all of one kind as read, which is a fiftieth of them;
- the deletion of what was read long ago, for as long as one purge takes.

Before and after each the same calls are timed, and at the end all numbers are compared with the rows. The plans of the
statements are written to `plans.txt`. Steps that could take very long end after a while, and say how far they came.
"""

import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles

from benchmarks import database
from benchmarks.figures import Figure
from benchmarks.rounds import middle, rate, ratio, take_turns
from benchmarks.unread import large, plans, stores
from benchmarks.unread.flush import LOOP
from benchmarks.unread.large import Size
from weir.notifications import counters, flush, inbox, reconcile
from weir.notifications.models import Doubt, Notification, Reconciliation, UnreadCount
from weir.notifications.reconciliation import changed
from weir.notifications.removal import retention

CALLS = 2_000
NOTIFIED = 100_000  # users of one notify_many, and of one flush
TOLD_AT_ONCE = 1_500_000  # users of one notify_many: some of their deltas are sent too late
LOOPED = 10_000
ROUNDS = 3
PASSES_S = 420  # of passes after the COPY, and of passes for doubts: the full scan does the rest
PURGE_S = 20  # as a worker does, every ten minutes

CLEAR_REFS, CLEAR_PEAK = Path("/proc/self/clear_refs"), "5"


def measure(folder: Path, size: Size) -> Iterator[Figure]:
    """Yield all figures, each as soon as it is known."""
    written = folder / "plans.txt"
    written.unlink(missing_ok=True)
    users = size.users
    yield from _timed("fill", lambda: large.fill(users))
    yield from large.sizes("filled")
    yield from _with_memory("full_scan", _scan("full_scan", users))
    yield from _with_memory("flush", _flushes(users))
    yield from _with_memory("notify_many", _notified(users))
    yield from _calls("filled", users)
    plans.write(written, "filled", users // 20)

    yield from _copied(size)
    yield from _with_memory("copied_passes", _passes(users))
    yield from _scan("copied_scan", users)
    yield from _calls("copied", users)
    plans.write(written, "copied", users // 20)

    yield from large.update_kind()
    yield from _calls("updated", users)
    plans.write(written, "updated", users // 20)
    yield from _with_memory("updated_scan", _scan("updated_scan", users))

    yield from _with_memory("purge", _purged())
    yield from large.sizes("purged")
    plans.write(written, "purged", users // 20)
    _flush()
    yield from _scan("last_scan", users)
    yield large.wrong_numbers()
    stores.empty()


def _timed(what: str, work: Callable[[], object]) -> Iterator[Figure]:
    began_at = time.perf_counter()
    work()
    yield Figure(name=f"{what}_took", value=time.perf_counter() - began_at, unit="s")


def _with_memory(what: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Yield the figures, and then the most memory that this process had meanwhile: on Linux; elsewhere, until now."""
    with suppress(OSError):
        CLEAR_REFS.write_text(CLEAR_PEAK)
    yield from figures
    yield Figure(
        name=f"{what}_peak_memory", value=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / 1e6, unit="MB"
    )


def _copied(size: Size) -> Iterator[Figure]:
    began_at = time.perf_counter()
    rows = large.copy(size)
    yield Figure(name="copy_took", value=time.perf_counter() - began_at, unit="s")
    yield Figure(name="copied", value=rows, unit="rows")


def _scan(what: str, users: int) -> Iterator[Figure]:
    """Compare all users, as `manage.py reconcile_unread` does, and repair wrong numbers."""
    began_at = time.perf_counter()
    repaired = reconcile.reconcile_users()
    took_s = time.perf_counter() - began_at
    yield Figure(name=f"{what}_took", value=took_s, unit="s")
    yield Figure(name=f"{what}_speed", value=users / took_s, unit="users/s")
    yield Figure(name=f"{what}_repaired", value=repaired.users, unit="users")


def _passes(users: int) -> Iterator[Figure]:
    """Lose a delta, and run passes until they have looked at it and at all rows that were copied before it.

    The delta's user is the last one that the full scan reaches.
    """
    large.lose_delta(users)
    lost = Notification.objects.latest("id")
    number = UnreadCount.objects.get(pk=users).unread_count
    time.sleep(changed.SETTLED_S)
    began_at = repaired_at = time.perf_counter()
    repaired, is_wrong, are_left = 0, True, True
    while (is_wrong or are_left) and time.perf_counter() < began_at + PASSES_S:
        report = reconcile.run_pass()
        now = time.perf_counter()
        if report and report.repaired.users:
            repaired += report.repaired.users
            repaired_at = now
        if is_wrong and UnreadCount.objects.get(pk=users).unread_count > number:
            is_wrong = False
            yield Figure(name="lost_delta_repaired_after", value=changed.SETTLED_S + now - began_at, unit="s")
        last = Reconciliation.objects.get()
        are_left = (last.changes_until, last.changes_until_id) < (lost.changed_at, lost.pk)
    yield Figure(name="copied_last_repair_after", value=changed.SETTLED_S + repaired_at - began_at, unit="s")
    yield Figure(name="copied_repaired", value=repaired, unit="users")
    yield Figure(name="copied_passes_took", value=time.perf_counter() - began_at, unit="s")
    yield Figure(name="copied_changes_are_left", value=are_left, unit="(0 = no)")


def _flushes(users: int) -> Iterator[Figure]:
    """Flush the deltas of random users; beside it a loop of one prepared UPDATE a user, in one transaction."""
    notified = Random(0).sample(range(1, users + 1), NOTIFIED)  # noqa: S311  nothing secret
    with database.connect() as bare:

        def ours() -> float:
            for start in range(0, NOTIFIED, counters.AT_ONCE):
                counters.add(dict.fromkeys(notified[start : start + counters.AT_ONCE], 1))
            taken = rate(NOTIFIED, flush.flush_sealed)
            for start in range(0, NOTIFIED, counters.AT_ONCE):
                counters.add(dict.fromkeys(notified[start : start + counters.AT_ONCE], -1))
            flush.flush_sealed()
            return taken

        def loop() -> None:
            with bare.transaction(), bare.cursor() as cursor:
                for delta in (1, -1):
                    for user_id in notified[:LOOPED]:
                        cursor.execute(LOOP, [delta, user_id])

        take_turns(1, ours)
        rounds = take_turns(ROUNDS, ours, lambda: rate(2 * LOOPED, loop))
    yield Figure(name="flush", value=middle(rounds, 0), unit="rows/s")
    yield Figure(name="looped_update_at_its_best", value=middle(rounds, 1), unit="rows/s")
    yield Figure(name="flush_vs_looped_update_at_its_best", value=ratio(rounds, 0, 1), unit="x")


def _notified(users: int) -> Iterator[Figure]:
    for number in range(ROUNDS):
        told = Random(number).sample(range(1, users + 1), NOTIFIED)  # noqa: S311
        yield Figure(
            name=f"notify_many_{number + 1}",
            value=rate(NOTIFIED, partial(inbox.notify_many, told, "news", "A new version is out")),
            unit="rows/s",
        )
    _flush()
    most = min(users, TOLD_AT_ONCE)
    yield Figure(
        name="notify_many_at_once",
        value=rate(most, partial(inbox.notify_many, range(1, most + 1), "news", "A new version is out")),
        unit="rows/s",
    )
    yield Figure(name="notify_many_at_once_doubts", value=Doubt.objects.count(), unit="users")
    _flush()
    yield from _timed("notify_many_at_once_doubts", _clear_doubts)


def _clear_doubts() -> None:
    give_up_at = time.perf_counter() + PASSES_S
    while Doubt.objects.exists() and time.perf_counter() < give_up_at:
        reconcile.run_pass()


def _calls(part: str, users: int) -> Iterator[Figure]:
    """Time what web code calls, for random users: the first calls find nothing in memory."""
    random = Random(1)  # noqa: S311
    calls: dict[str, Callable[[int], object]] = {
        "unread_count": inbox.unread_count,
        "page": inbox.page,
        "page_of_unread": lambda user_id: inbox.page(user_id, unread_only=True),
    }
    for name, call in calls.items():
        times_ms = []
        for _ in range(CALLS):
            user_id = random.randint(1, users)
            began_at = time.perf_counter()
            call(user_id)
            times_ms.append((time.perf_counter() - began_at) * 1e3)
        yield Figure(name=f"{part}_{name}_p50", value=median(times_ms), unit="ms")
        yield Figure(name=f"{part}_{name}_p99", value=quantiles(times_ms, n=100)[98], unit="ms")


def _purged() -> Iterator[Figure]:
    began_at = time.perf_counter()
    purged = retention.purge(PURGE_S)
    took_s = time.perf_counter() - began_at
    yield Figure(name="purge_took", value=took_s, unit="s")
    yield Figure(name="purge", value=purged / took_s, unit="rows/s")


def _flush() -> None:
    """Move all deltas to PostgreSQL: two flushes, because one epoch may be sealed already."""
    for _ in range(2):
        flush.flush_sealed()
