"""The runs that a process holds for its callers: used at the site's rate, recalled, and given back."""

import asyncio
import os
import time
from collections.abc import Callable  # noqa: TC003  a variable's type
from datetime import timedelta
from itertools import chain, pairwise

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from tests.integration.conftest import Eventually, InThreads, StartPython
from tests.set_up import needs_own_sessions
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.held import process
from weir.ratelimit.held.held_run import HeldRun
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.throttle import athrottle, throttle

pytestmark = pytest.mark.django_db(transaction=True)

SITE = "site.example"
PER_S = 100
GRACE = timedelta(milliseconds=100)  # with which single starts get one start in 0.11 s

USE = """
import time
from weir.ratelimit.throttle import throttle
for _ in range(int(sys.argv[2])):
    with throttle(sys.argv[1]):
        print(time.monotonic(), flush=True)
"""


@pytest.fixture(autouse=True)
def site_at() -> None:
    """Create a site at which single starts would use a tenth of the rate."""
    site_settings.set_rate(SITE, f"{PER_S}/s", grace=GRACE)


def use(count: int) -> list[float]:
    """Return when `count` bodies began, one after the other."""
    starts = []
    for _ in range(count):
        with throttle(SITE):
            starts.append(time.monotonic())
    return starts


def use_async(count: int) -> list[float]:
    """Return when `count` bodies began, all asked for at the same time."""

    async def one() -> float:
        async with athrottle(SITE):
            began_at = time.monotonic()
            await asyncio.sleep(0.02)
            return began_at

    async def main() -> list[float]:
        try:
            return await asyncio.gather(*(one() for _ in range(count)))
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(main())


def use_until_refused(starts: list[float]) -> None:
    while True:
        starts += use(1)


def shortest_gap(starts: list[float]) -> float:
    return min(later - earlier for earlier, later in pairwise(sorted(starts)))


@pytest.mark.parametrize("kind", ["one thread", "threads", "tasks"])
def test_callers_at_speed_use_the_rate(kind: str, in_threads: InThreads) -> None:
    """Sixty starts take about 0.6 s of the site, and some graces, not sixty; and the interval holds between them."""
    ways: dict[str, Callable[[], list[float]]] = {
        "one thread": lambda: use(60),
        "threads": lambda: list(chain(*in_threads(4, lambda _number: use(15)))),
        "tasks": lambda: use_async(60),
    }
    starts = ways[kind]()
    assert shortest_gap(starts) >= 1 / PER_S
    assert max(starts) - min(starts) < 60 * (1 / PER_S + GRACE.total_seconds()) / 2


def test_callers_that_come_seldom_get_single_starts(eventually: Eventually) -> None:
    """Slots that a process does not need are not lost for others: it reserves nothing ahead."""
    for _ in range(3):
        use(1)
        free_at = time.monotonic() + GRACE.total_seconds() + 2 / PER_S
        eventually(lambda at=free_at: time.monotonic() > at, "the site to be free again")
    assert set(Slot.objects.values_list("run_size", flat=True)) == {1}


def test_what_callers_do_not_use_is_given_back(eventually: Eventually) -> None:
    """The callers of a process stop: a moment later the site is free for others, as if nothing had been reserved."""
    used = len(use(6))  # 1 + 4 + the first of 16
    while Slot.objects.count() == used:  # a process that stands still begins with one again
        used += len(use(1))
    eventually(lambda: slots.estimate(SITE) == 0, "the site to be free")
    eventually(lambda: Slot.objects.filter(finished_at__isnull=False).count() == used, "the used slots to be noted")
    assert not Slot.objects.filter(finished_at=None, released_at=None).exists()


def test_a_process_that_ends_gives_back(start_python: StartPython) -> None:
    """Even if its last run had just begun."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(seconds=1))  # a run may take two seconds
    user = start_python(USE, SITE, "3")
    user.communicate()
    assert user.returncode == 0
    assert Slot.objects.filter(finished_at__isnull=False).count() == 3
    assert not Slot.objects.filter(finished_at=None, released_at=None).exists()
    assert slots.estimate(SITE) < 0.1


def test_a_killed_process_holds_the_site_until_its_run_is_over(start_python: StartPython) -> None:
    """Then others go on, an interval after its last possible start."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(seconds=1))
    user = start_python(USE, SITE, "100")
    assert user.stdout is not None
    starts = [float(user.stdout.readline()) for _ in range(3)]
    user.kill()
    starts += [float(line) for line in user.communicate()[0].splitlines()]
    use_until = max(Slot.objects.values_list("use_until", flat=True))
    started_at = use(1)[0]
    assert started_at - starts[-1] >= 0.1
    assert Slot.objects.latest("id").start_time >= use_until + timedelta(seconds=0.1)


@needs_own_sessions
def test_a_forked_child_has_nothing_of_its_parent() -> None:
    """A start in a slot of the parent's run could come at the same time as one of the parent."""
    use(6)
    parents = set(Slot.objects.values_list("id", flat=True))
    connections.close_all()
    child = os.fork()
    if not child:  # pragma: no cover  another process
        code = 1
        try:
            with throttle(SITE) as slot_id:
                code = 0 if slot_id not in parents else 2
            process.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_pause_recalls_what_a_process_holds() -> None:
    """Half a second after a pause no slot of the run is used, however many of its callers wait."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(seconds=1))
    use(5)
    site_settings.pause(SITE)
    paused_at = time.monotonic()
    late: list[float] = []
    with pytest.raises(slots.SlotTooFar):
        use_until_refused(late)
    assert not late or late[-1] < paused_at + 0.5
    site_settings.resume(SITE)
    use(1)


def test_a_slot_of_the_process_that_is_too_far_away_is_refused() -> None:
    """A caller waits no longer than it would, even if other callers of the process are before it."""
    site_settings.set_rate(SITE, "5/s", grace=timedelta(seconds=1))

    def impatient() -> list[float]:
        with throttle(SITE, max_wait=0.001):
            return [time.monotonic()]

    use(1)
    with pytest.raises(slots.SlotTooFar) as refusal:
        impatient()
    assert 0 < refusal.value.retry_after < 2


def test_a_run_that_is_given_back_keeps_gcra() -> None:
    """With a burst, the next run begins where the last one's starts allow, not earlier."""
    site_settings.set_rate(SITE, "10/s", burst=5)
    slots.reserve(SITE, 5)
    before = Site.objects.get().next_start
    held = HeldRun(slots.reserve(SITE, 20))
    rest = held.stop(at_once=True)
    assert rest is not None
    slots.hand_back(rest.free, rest.free_at - clock.now())
    after = Site.objects.get().next_start
    assert timedelta(0) <= after - before < timedelta(seconds=0.1)


def test_a_run_is_given_back_behind_which_others_reserved() -> None:
    """Their slots stand, and the clock with them."""
    run, _others = slots.reserve(SITE, 20), slots.reserve(SITE, 1)
    before = Site.objects.get().next_start
    slots.hand_back([slot.id for slot in run.slots[5:]], 0.0)
    assert Site.objects.get().next_start == before
    assert Slot.objects.filter(released_at__isnull=False).count() == 15


def test_a_recalled_run_that_is_given_back_leaves_the_clock() -> None:
    """With the rate, the clock has changed."""
    run = slots.reserve(SITE, 20)
    site_settings.back_off(SITE, 5)
    before = Site.objects.get().next_start
    slots.hand_back([slot.id for slot in run.slots], 0.0)
    assert Site.objects.get().next_start == before
