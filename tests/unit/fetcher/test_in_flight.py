"""What recalls do to what a fetcher holds: each slot that was passed on is looked up once at a time."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from ratelimit.pacing import Confirmation, Run
from ratelimit.slots import Recall
from workers.fetches.fetcher.in_flight import FOLLOWING, Batch, HeldJob, InFlight, Stage
from workers.fetches.jobs import Event, Job

FIRST = datetime(2026, 11, 21, tzinfo=UTC)
LATER = FIRST + timedelta(milliseconds=50)


def job(fetch_id: int) -> Job:
    return Job(
        fetch_id=fetch_id,
        url="https://site.example/",
        redirects=0,
        attempts=0,
        max_attempts=5,
        site_id=1,
        site="site.example",
        slot_id=7,
        start_at=0.0,
        run=Run(interval_s=1.0, burst=1, start_until=9.0, use_until=9.0, confirmation=Confirmation(asked_at=0.0)),
    )


def passed_on(at: datetime) -> list[Recall]:
    return [Recall(site_id=1, at=at, passed_on=7)]


def begin(in_flight: InFlight, fetch_id: int) -> asyncio.Task[Event]:
    """Add a job that waits for its slot."""

    async def wait() -> Event:
        await asyncio.sleep(60)
        raise AssertionError

    one = job(fetch_id)
    task = asyncio.ensure_future(wait())
    in_flight.add(task, HeldJob(job=one, batch=Batch([one])))
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


@pytest.mark.parametrize(("stage", "to"), list(product(Stage, Stage)))
def test_a_job_moves_forward_only(stage: Stage, to: Stage) -> None:
    """What was written never waits again, and what has ended stays so: each event reaches the writer once."""
    one = job(1)
    held = HeldJob(job=one, batch=Batch([one]), stage=stage)
    if to in FOLLOWING[stage]:
        held.move(to)
        assert held.stage is to
    else:
        with pytest.raises(RuntimeError, match=f"cannot be {to.value}: it is {stage.value}"):
            held.move(to)


@pytest.mark.parametrize("to", [stage for stage in Stage if stage is not Stage.WAITING])
def test_a_message_waits_for_jobs_that_wait_only(to: Stage) -> None:
    """Its thread is free as soon as nothing of it can be written any more."""
    one = job(1)
    batch = Batch([one])
    assert not batch._settled.is_set()
    HeldJob(job=one, batch=batch).move(to)
    assert batch._settled.is_set()
