"""SIGKILL at every step, again and again: unread numbers equal the rows, and nothing is counted twice."""

import ast
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings

from benchmarks.unread import published as published_unread
from tests.acceptance.notifications import unread_processes as roles
from tests.acceptance.processes import Processes
from tests.waiting import comes_true
from weir.notifications import flush, inbox, reconcile
from weir.notifications.models import Doubt, FlushedEpoch
from weir.notifications.reconciliation import drift

AT_LENGTH = "WEIR_FAULTS" in os.environ
KILLS = 250 if AT_LENGTH else 8  # at random
KILLS_A_STEP = 25 if AT_LENGTH else 1
READS = 120_000 if AT_LENGTH else 2_000
USERS = range(1, 251)
LINGER_S = 0.01  # around the steps of flushes and reads, if they are to meet


@pytest.fixture
def chance() -> random.Random:
    return random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  what is killed, and when


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path) -> Iterator[Processes]:  # noqa: ARG001  must come first
    """Processes on the test database, and on an empty Valkey that is trusted."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushdb()
    reconcile.run_pass()
    made = Processes(tmp_path, roles.__name__, "REDIS_URL")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.faults
def test_flushers_that_are_killed_lose_nothing_and_double_nothing(processes: Processes, chance: random.Random) -> None:
    """Two flushers, killed at random and at each step, while others write; no pass repairs anything."""
    for seed in range(2):
        processes.start(roles.write, USERS, seed, processes.stop)
    flushers = [processes.start(roles.keep_flushing, processes.stop) for _ in range(2)]
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.06))  # chance decides when
        processes.kill(flushers.pop(0))
        flushers.append(processes.start(roles.keep_flushing, processes.stop))
    killed_at = dict.fromkeys(roles.FLUSH_STEPS, 0)
    for step in list(killed_at) * KILLS_A_STEP:
        processes.gone(processes.start(roles.keep_flushing, processes.stop, step))
        killed_at[step] += 1
    processes.finish()
    flush.flush_sealed()

    rows = roles.count_rows(USERS)
    epochs, unread = FlushedEpoch.objects.count(), sum(rows.values())
    print(f"\nkilled: {KILLS} at random, {killed_at}  epochs: {epochs}  unread: {unread}")
    assert epochs > len(killed_at) * KILLS_A_STEP
    assert unread > 0
    assert not drift.look(USERS).differing
    assert inbox.unread_counts(USERS) == rows


@pytest.mark.faults
def test_the_published_algorithm_loses_where_its_flusher_is_killed(processes: Processes) -> None:
    """The contrast, in the same harness: what a flusher had taken from Redis dies with it."""
    published_unread.create_table()
    for seed in range(2):
        processes.start(roles.publish, USERS, seed, processes.stop)
    processes.start(roles.keep_flushing_as_published, processes.stop)
    steps = roles.PUBLISHED_STEPS * KILLS_A_STEP
    for step in steps:
        processes.gone(processes.start(roles.keep_flushing_as_published, processes.stop, step))
    processes.finish()
    published = published_unread.PublishedUnread()
    published.flush()

    rows = roles.count_rows(USERS)
    wrong = [published.number(user) - unread for user, unread in rows.items() if published.number(user) != unread]
    print(f"\nthe published algorithm: killed {len(steps)} times; {len(wrong)} users wrong, by {sorted(wrong)}")
    assert wrong
    assert inbox.unread_counts(USERS) == rows


@pytest.mark.faults
def test_whatever_is_killed_a_pass_makes_every_number_right(processes: Processes, chance: random.Random) -> None:
    """Writers, readers, flushers and reconcilers, killed at random, and writers right before and after their delta."""
    kinds: list[tuple[Any, ...]] = [
        *((roles.write, USERS, seed) for seed in range(3)),
        (roles.keep_reading, USERS),
        *((roles.keep_flushing,) for _ in range(2)),
        (roles.keep_reconciling,),
    ]
    running = [(processes.start(*kind, processes.stop), kind) for kind in kinds]
    for number in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.1))  # chance decides when
        process, kind = running.pop(chance.randrange(len(running)))
        processes.kill(process)
        running.append((processes.start(*kind, processes.stop), kind))
        if number % 10 == 0:
            for step in roles.WRITE_STEPS:
                processes.gone(processes.start(roles.write, USERS, number, processes.stop, step))
    processes.finish()
    flush.flush_sealed()
    drifted = {user: found.drift for user, found in drift.look(USERS).differing.items()}
    began = time.monotonic()
    assert comes_true(reconciled, 60)

    print(f"\nkilled: {KILLS}  wrong before the last pass: {drifted}  reconciled in {time.monotonic() - began:.1f} s")
    assert inbox.unread_counts(USERS) == roles.count_rows(USERS)


def reconciled() -> bool:
    """Run a pass, and return whether all numbers are right without counting rows."""
    report = reconcile.run_pass()
    seen = drift.look(USERS)
    return bool(report and report.trusted and not seen.differing and not seen.moving and not Doubt.objects.exists())


@pytest.mark.faults
def test_a_number_that_is_known_is_never_read_wrong_while_it_is_flushed(processes: Processes, tmp_path: Path) -> None:
    """Deltas go through seal, COMMIT and drop all the time, while others read the numbers that they belong to."""
    known, told = tmp_path / "known", [tmp_path / f"told-{number}" for number in range(2)]
    known.write_text("0")
    for seed, file in enumerate(told):
        file.write_text("{}")
        processes.start(roles.read_known, USERS, seed, known, file, processes.stop, linger_s=seed * LINGER_S)
    for _ in range(2):
        processes.start(roles.keep_flushing, processes.stop, linger_s=LINGER_S)
    rounds = 0
    while (seen := sum_of(told))["reads"] < READS and seen.keys() <= {"reads"}:
        known.write_text("")
        inbox.notify_many(USERS, "news", "Hello")
        rounds += 1
        known.write_text(str(rounds))
        time.sleep(3 * LINGER_S)  # about as long as a flush takes
    processes.finish()

    print(f"\n{seen}  rounds: {rounds}  epochs flushed: {FlushedEpoch.objects.count()}")
    assert seen.keys() == {"reads"}
    assert FlushedEpoch.objects.count() > rounds / 3


def sum_of(told: list[Path]) -> Counter[str]:
    """Return what all readers saw so far."""
    seen = Counter[str]()
    for file in told:
        with suppress(SyntaxError):  # it is just being written
            seen.update(ast.literal_eval(file.read_text()))
    return seen
