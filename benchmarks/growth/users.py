"""What flushes, reads and scans cost while users grow, each of whom has ten notifications, two of them unread."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

from benchmarks.growth import curves
from benchmarks.growth.curves import Growth, takes_ms
from benchmarks.unread import large, plans, stores
from weir.notifications import counters, flush, inbox
from weir.notifications.reconciliation import full_scan

FLUSHED = 5_000  # random users of one flush, and of one notify_many
CALLS = 1_000
SLICES = 5  # of a scan


def _costs(size: int, folder: Path) -> Iterator[tuple[str, float]]:
    random = Random(0)  # noqa: S311  nothing secret
    some = random.sample(range(1, size + 1), min(FLUSHED, size))
    yield f"flush_{FLUSHED}", takes_ms(flush.flush_sealed, before=partial(counters.add, dict.fromkeys(some, 1)))
    counters.add(dict.fromkeys(some, -1 - curves.ROUNDS))  # what the flushes have added
    flush.flush_sealed()
    yield "scan_1000", median(_slices_take(size)) * 1e6
    yield "unread_count", _call_takes(inbox.unread_count, some)
    yield "page", _call_takes(inbox.page, some)
    yield "page_of_unread", _call_takes(partial(inbox.page, unread_only=True), some)
    yield f"notify_many_{FLUSHED}", takes_ms(lambda: inbox.notify_many(some, "news", "A new version is out"))
    written = folder / f"users_at_{size}.txt"
    written.unlink(missing_ok=True)
    plans.write(written, str(size), size // 20 + 1)


def _slices_take(users: int) -> Iterator[float]:
    """Yield the seconds that some slices of the full scan took for a user, at places far from each other."""
    for after in range(0, users, -(-users // SLICES)):
        began = perf_counter()
        compared = next(full_scan.pages(after)).compared
        yield (perf_counter() - began) / compared


def _call_takes(call: Callable[[int], object], users: list[int]) -> float:
    times = []
    for user_id in users[:CALLS]:
        began = perf_counter()
        call(user_id)
        times.append(perf_counter() - began)
    return median(times) * 1e3


USERS = Growth(
    name="users",
    of="users",
    sizes=(10_000, 100_000, 1_000_000, 10_000_000),
    fill=lambda _before, size: large.fill(size),
    costs=_costs,
    empty=stores.empty,
)
measure = partial(curves.measure, growth=USERS)
