"""A network that delays, cuts and repeats, and processes that are killed: numbers are right, and nothing is doubled."""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from tests.acceptance.notifications import unread_processes as roles
from tests.acceptance.notifications.faulty_network import FaultyNetwork, faulty_network
from tests.acceptance.processes import Processes
from tests.waiting import LONG_S, wait_for
from weir.notifications import flush, inbox, reconcile
from weir.notifications.models import Doubt, FlushedEpoch, UnreadCount
from weir.notifications.reconciliation import drift
from weir.redis_link import calls

AT_LENGTH = "WEIR_FAULTS" in os.environ
SEED = os.environ.get("WEIR_FAULTS_SEED", "weir")
SECONDS = 150.0 if AT_LENGTH else 2.0  # for this long, everything goes wrong
BOUND_S = 45.0  # docs/explanation/counted.md: a delta that is lost is found by then
USERS = range(1, 251)
WRITERS = [(roles.write, USERS, seed) for seed in range(3)]
FLUSHERS = [(roles.keep_flushing,)] * 2
READER, RECONCILER = (roles.keep_reading, USERS), (roles.keep_reconciling,)


@pytest.fixture
def chance() -> random.Random:
    print(f"\nWEIR_FAULTS_SEED={SEED}")
    return random.Random(SEED)  # noqa: S311  what goes wrong, and when


@pytest.fixture
def network(
    transactional_db: None,  # noqa: ARG001  must come first
    chance: random.Random,
) -> Iterator[FaultyNetwork]:
    """The network before an empty Valkey that is trusted."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushdb()
    reconcile.run_pass()
    with (
        faulty_network(settings.REDIS_URL.removeprefix("unix://"), chance) as made,
        override_settings(REDIS_URL=made.url),
    ):
        calls.forget()
        yield made
    calls.forget()


@pytest.fixture
def processes(network: FaultyNetwork, tmp_path: Path) -> Iterator[Processes]:  # noqa: ARG001  must come first
    made = Processes(tmp_path, roles.__name__, "REDIS_URL")
    try:
        yield made
    finally:
        made.close()


def go_wrong(
    processes: Processes,
    network: FaultyNetwork,
    chance: random.Random,
    mortal: list[tuple[Any, ...]],
    immortal: list[tuple[Any, ...]],
    *,
    enough: Callable[[], object] = lambda: True,
) -> int:
    """Run processes through the network, and kill the mortal ones; return how many were killed.

    On a busy machine it goes on until enough has happened, for a minute at most. At the end the network is mended, all
    processes have ended, and everything that they sent has arrived.
    """
    running = [(processes.start(*kind, processes.stop), kind) for kind in mortal]
    for kind in immortal:
        processes.start(*kind, processes.stop)
    kills, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until or not (enough() or time.monotonic() > until + LONG_S):
        time.sleep(chance.uniform(0.0, 0.5))  # chance decides when
        process, kind = running.pop(chance.randrange(len(running)))
        processes.kill(process)
        running.append((processes.start(*kind, processes.stop), kind))
        kills += 1
    network.mended = True
    processes.finish()
    wait_for(network.is_quiet, 20, "everything that was sent to be delivered")
    flush.flush_sealed()
    return kills


def stored() -> dict[int, int]:
    """Return the numbers that PostgreSQL has."""
    return dict.fromkeys(USERS, 0) | dict(UnreadCount.objects.values_list("pk", "unread_count"))


def wrong() -> dict[int, int]:
    """Return by how much the shown numbers are wrong, or would be if rows were not counted."""
    rows, shown, kept = roles.count_rows(USERS), inbox.unread_counts(USERS), stored()
    return {user: kept[user] - rows[user] for user in USERS if not kept[user] == shown[user] == rows[user]}


@pytest.mark.faults
def test_what_the_network_repeats_is_counted_once(
    processes: Processes, network: FaultyNetwork, chance: random.Random
) -> None:
    """No pass repairs anything: what is stored is what Redis said that it added, each change once."""
    done = network.done
    kills = go_wrong(
        processes,
        network,
        chance,
        [*WRITERS, *FLUSHERS],
        [],
        enough=lambda: done["adds repeated at once"] and done["adds repeated later"],
    )
    numbers = stored()
    doubled = {user: numbers[user] - network.added[user] for user in USERS if numbers[user] != network.added[user]}

    print(f"killed: {kills}  {dict(network.done)}  epochs: {FlushedEpoch.objects.count()}")
    print(f"wrong without a pass: {len(wrong())} of {len(USERS)}  doubled: {doubled}")
    assert network.done["adds repeated at once"]
    assert network.done["adds repeated later"]
    assert not doubled


@pytest.mark.faults
def test_whatever_the_network_does_every_number_is_right_in_time(
    processes: Processes, network: FaultyNetwork, chance: random.Random
) -> None:
    """Reconcilers repair what was lost; they, too, ask Redis over that network, and are killed."""
    mortal = [*WRITERS, READER, *FLUSHERS, *([RECONCILER] if AT_LENGTH else [])]  # after a kill no pass runs for 15 s
    kills = go_wrong(processes, network, chance, mortal, [] if AT_LENGTH else [RECONCILER])
    drifted, began = {user: found.drift for user, found in drift.look(USERS).differing.items()}, time.monotonic()
    while time.monotonic() - began < BOUND_S:
        report = reconcile.run_pass()
        if report and report.trusted and not Doubt.objects.exists() and not wrong():
            break
        time.sleep(0.1)

    print(f"killed: {kills}  {dict(network.done)}  epochs: {FlushedEpoch.objects.count()}")
    print(f"wrong before the last pass: {drifted}  wrong after {time.monotonic() - began:.1f} s: {wrong()}")
    assert kills
    assert not Doubt.objects.exists()
    assert wrong() == {}
