"""How many starts a process reserves at once: a table of numbers."""

from tests.cases import for_each
from weir.ratelimit.held.run_size import Need, RunSize
from weir.ratelimit.pacing import Confirmation, Run
from weir.ratelimit.slots import Reservation


def reservation(interval_s: float, grace_s: float) -> Reservation:
    run = Run(interval_s=interval_s, burst=1, start_until=9, use_until=9, confirmation=Confirmation(asked_at=0))
    return Reservation(site="a", slots=(), run=run, grace_s=grace_s, arrival_at=0)


def sizes(interval_s: float, grace_s: float, *needs: Need, waiting: int = 1, wait_s: float = 0.0) -> list[int]:
    """Return the sizes of the runs of a process whose callers need this, run by run."""
    size, found = RunSize(), []
    for need in (None, *needs):
        found.append(count := size.next(waiting, need))
        size.reserved(count, reservation(interval_s, grace_s), wait_s=wait_s, max_wait=15.0)
    return found


MORE = Need(used=1, is_too_small=True, is_recent=True)


@for_each(
    ("per_s", "grace_s", "expected"),
    [
        (1000, 0.025, [1, 4, 16, 64, 256, 625, 625]),  # 25 ms are 4 % of 625 ms
        (200, 0.025, [1, 4, 16, 64, 125, 125, 125]),
        (10, 0.025, [1, 4, 6, 6, 6, 6, 6]),
        (200, 0.3, [1, 4, 16, 64, 256, 400, 400]),  # two seconds
        (1, 0.025, [1, 1, 1, 1, 1, 1, 1]),  # the grace is little already
        (0.1, 0.25, [1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_a_busy_process_takes_runs_in_which_the_grace_is_little(
    per_s: float, grace_s: float, expected: list[int]
) -> None:
    """Four times as many each time, up to that size."""
    assert sizes(1 / per_s, grace_s, *[MORE] * 6) == expected


def test_as_many_starts_are_reserved_as_were_used() -> None:
    """Callers that come less often get shorter runs, in the end single starts."""
    fewer = [Need(used=used, is_too_small=False, is_recent=True) for used in (3, 1)]
    assert sizes(0.005, 0.025, MORE, MORE, *fewer) == [1, 4, 16, 3, 1]


def test_after_a_pause_a_caller_gets_one_start() -> None:
    """What callers needed a while ago says nothing."""
    assert sizes(0.005, 0.025, MORE, MORE, Need(used=16, is_too_small=False, is_recent=False)) == [1, 4, 16, 1]


def test_waiting_callers_get_a_start_each() -> None:
    """As soon as the interval is known, which it is after the first reservation."""
    assert sizes(0.005, 0.025, Need(used=1, is_too_small=False, is_recent=True), waiting=30) == [1, 30]


def test_runs_are_shorter_where_many_processes_wait() -> None:
    """A caller would wait for more than half of its time: each process takes half as much."""
    assert sizes(0.005, 0.025, MORE, MORE, wait_s=8.0) == [1, 1, 1]
    size = RunSize()
    size.reserved(100, reservation(0.005, 0.025), wait_s=8.0, max_wait=15.0)
    assert size.next(1, MORE) == 50


def test_it_is_known_whether_one_caller_reserves_for_all() -> None:
    """Where runs are of one start, callers do not wait for each other."""
    size = RunSize()
    assert size.may_be_longer
    size.reserved(1, reservation(1.0, 0.025), wait_s=0.0, max_wait=15.0)
    assert not size.may_be_longer
