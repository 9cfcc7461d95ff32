"""What recalls do to what a fetcher holds: each slot that was passed on is looked up once at a time."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from tests.cases import for_each
from weir.ratelimit.pacing import Confirmation, Run
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.fetcher.in_flight import (
    FOLLOWING,
    BatchInFlight,
    HeldJob,
    InFlight,
    Stage,
)
from weir.workers.fetches.jobs import Event, Job

FIRST = datetime(2026, 11, 21, tzinfo=UTC)
LATER = FIRST + timedelta(milliseconds=50)


def job(fetch_id: int, *, site_id: int = 1, slot_id: int = 7) -> Job:
    return Job(
        fetch_id=fetch_id,
        url="https://site.example/",
        redirects=0,
        attempts=0,
        max_attempts=5,
        site_id=site_id,
        site="site.example",
        slot_id=slot_id,
        start_at=0.0,
        run=Run(interval_s=1.0, burst=1, start_until=9.0, use_until=9.0, confirmation=Confirmation(asked_at=0.0)),
    )


def passed_on(at: datetime) -> list[Recall]:
    return [Recall(site_id=1, at=at, passed_on=7)]


def begin(in_flight: InFlight, fetch_id: int, **place: int) -> asyncio.Task[Event]:
    """Add a job that waits for its slot."""

    async def wait() -> Event:
        await asyncio.sleep(60)
        raise AssertionError

    one = job(fetch_id, **place)
    task = asyncio.ensure_future(wait())
    in_flight.add(task, HeldJob(job=one, batch=BatchInFlight([one])))
    return task


def fetches(held: list[HeldJob]) -> list[int]:
    return [one.job.fetch_id for one in held]


async def twice_in_one_turn() -> None:
    """Pass a slot on twice before the task of its first holder could end."""
    in_flight = InFlight()
    first = begin(in_flight, 1)
    assert fetches(list(in_flight.apply(passed_on(FIRST)))) == [1]
    assert fetches(list(in_flight.apply(passed_on(FIRST) + passed_on(LATER)))) == []
    await asyncio.wait([first])
    in_flight.pop(first)

    in_flight.note_taken_over(job(2), FIRST)  # the answer was on its way when the slot was passed on again
    second = begin(in_flight, 2)
    assert fetches(list(in_flight.apply(passed_on(FIRST) + passed_on(LATER)))) == [2]
    await asyncio.wait([second])


def test_a_slot_that_is_passed_on_twice_at_once_is_looked_up_once() -> None:
    """Two look-ups would both find the last successor, and send it twice; what is passed on later is not missed."""
    asyncio.run(twice_in_one_turn())


@for_each(("stage", "to"), list(product(Stage, Stage)))
def test_a_job_moves_forward_only(stage: Stage, to: Stage) -> None:
    """What was written never waits again, and what has ended stays so: each event reaches the writer once."""
    one = job(1)
    held = HeldJob(job=one, batch=BatchInFlight([one]), stage=stage)
    if to in FOLLOWING[stage]:
        held.move(to)
        assert held.stage is to
    else:
        with pytest.raises(RuntimeError, match=f"cannot be {to.value}: it is {stage.value}"):
            held.move(to)


@for_each("to", [stage for stage in Stage if stage is not Stage.WAITING])
def test_a_message_waits_for_jobs_that_wait_only(to: Stage) -> None:
    """Its thread is free as soon as nothing of it can be written any more."""
    one = job(1)
    batch = BatchInFlight([one])
    assert not batch._settled.is_set()
    HeldJob(job=one, batch=batch).move(to)
    assert batch._settled.is_set()


async def refuse_at_once(sites: int, jobs_of_each: int) -> tuple[int, int]:
    """Let all sites refuse, each several times; returns how many jobs were looked at, and how many ended."""
    in_flight, looked_at = InFlight(), 0

    def is_void(_job: Job) -> bool:
        nonlocal looked_at
        looked_at += 1
        return True

    waiting = [begin(in_flight, n, site_id=n % sites, slot_id=n + 1) for n in range(sites * jobs_of_each)]
    await asyncio.sleep(0)
    for _ in range(3):
        for site_id in range(sites):
            in_flight.give_back_at(site_id, is_void)
    await asyncio.wait(waiting)
    ended = sum(task.cancelled() for task in waiting)
    for task in waiting:
        in_flight.pop(task)
    assert not in_flight._by_site, "nothing is left behind"
    return looked_at, ended


def test_sites_that_refuse_at_once_cost_a_look_at_each_of_their_jobs() -> None:
    """Not one at all jobs for each of the refusals."""
    assert asyncio.run(refuse_at_once(100, 10)) == (1_000, 1_000)


async def give_back_one_site() -> None:
    in_flight = InFlight()
    written = begin(in_flight, 9, site_id=0, slot_id=1)
    voided, kept = (begin(in_flight, slot, site_id=0, slot_id=slot) for slot in (2, 3))
    other = begin(in_flight, 4, site_id=1, slot_id=4)
    in_flight._tasks[written].move(Stage.WRITTEN)
    await asyncio.sleep(0)
    in_flight.give_back_at(0, lambda job: job.slot_id < 3)
    await asyncio.wait([voided])
    assert [task.done() for task in (voided, kept, other, written)] == [True, False, False, False]
    in_flight.give_back_at(0)
    await asyncio.wait([kept])
    assert [task.done() for task in (other, written)] == [False, False]
    recalled = begin(in_flight, 5, site_id=1, slot_id=5)
    assert not list(in_flight.apply([Recall(site_id=1, at=FIRST, last_slot=4)]))
    await asyncio.wait([other])
    assert [task.done() for task in (recalled, written)] == [False, False]
    in_flight.give_back()
    await asyncio.wait([recalled])
    assert not written.done()
    written.cancel()


def test_what_ends_jobs_of_a_site_leaves_all_others_and_what_is_written() -> None:
    """A refusal, a recall and a stop: what one of them leaves, a later one may end."""
    asyncio.run(give_back_one_site())
