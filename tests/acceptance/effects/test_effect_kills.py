"""SIGKILL at every step, and a hostile payment API: no refund is done twice, by the API's own book."""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests import payments, refunds
from tests.acceptance.effects import effect_processes as roles
from tests.acceptance.processes import Processes
from tests.payments import PaymentApi
from tests.refunds import BLIND, KEYED, PROBED
from tests.waiting import wait_for
from weir.workers.effects.models import Effect
from weir.workers.effects.performing.leases import LEDGER

AT_LENGTH = "WEIR_FAULTS" in os.environ
KILLS = 700 if AT_LENGTH else 6  # at random
KILLS_A_STEP = 50 if AT_LENGTH else 1
EFFECTS = 10_000 if AT_LENGTH else 80
WORKERS = 2
LEASES = {
    "WEIR_EFFECT_LEASE": 2.0,
    "WEIR_EFFECT_UNKNOWN_AFTER": 4.0,  # more than the API may take, and than probes wait for that
    "WEIR_EFFECT_MAX_ATTEMPTS": 1_000,  # of those that are killed again and again
}
# What the API does with requests that are answered with nothing, or with an answer that says nothing.
MAY_BE_UNKNOWN = ("cut-undone", "cut-done", "late", "stall", "error-done")
GAVE_UP = "TimeoutError"  # the client, on a machine that is busy


@pytest.fixture
def chance() -> random.Random:
    return random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when


@pytest.fixture
def apis() -> Iterator[dict[str, PaymentApi]]:
    """Run an API that keeps keys, for one kind, and one that keeps none, for the others."""
    with payments.running(keeps_keys=True) as keeping, payments.running(keeps_keys=False) as other:
        yield {KEYED: keeping, PROBED: other, BLIND: other}


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path, settings: Settings) -> Iterator[Processes]:  # noqa: ARG001  must come first
    for name, value in LEASES.items():
        setattr(settings, name, value)
    made = Processes(tmp_path, roles.__name__, *LEASES)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.faults
def test_whoever_is_killed_nothing_happens_twice_and_each_unknown_is_explained(
    processes: Processes, apis: dict[str, PaymentApi], chance: random.Random
) -> None:
    """Workers are killed at random and at each step; the API cuts, stalls, fails; judged by its own book."""
    ports = {kind: api.port for kind, api in apis.items()}
    clerks = [processes.start(roles.queue_refunds, clerk, ports, processes.stop) for clerk in range(2)]
    workers = [processes.start(roles.keep_performing, processes.stop) for _ in range(WORKERS)]
    killed: dict[int | None, str] = {}  # process id -> the step
    steps = [*roles.STEPS] * KILLS_A_STEP + ["at random"] * KILLS
    chance.shuffle(steps)
    for step in steps:
        if step == "at random":
            time.sleep(chance.uniform(0.0, 0.2))  # chance decides when
            worker = workers.pop(0)
            processes.kill(worker)
            workers.append(processes.start(roles.keep_performing, processes.stop))
        else:
            worker = processes.start(roles.keep_performing, processes.stop, step)
            processes.gone(worker)
        killed[worker.pid] = step
    wait_for(lambda: Effect.objects.count() >= EFFECTS, 300, f"{EFFECTS} effects")
    for clerk in clerks:
        processes.kill(clerk)
    wait_for(lambda: not unfinished(), 120, "every effect to end")
    processes.finish()
    judge(apis, killed)


def judge(apis: dict[str, PaymentApi], killed: dict[int | None, str]) -> None:
    """Fail if anything was done twice, is not what its state says, or is unknown without a cause."""
    done = apis[KEYED].refunds() + apis[BLIND].refunds()
    effects = list(Effect.objects.all())
    print(f"\n{len(killed)} kills: {dict(Counter(killed.values()))}")
    print(f"{len(effects)} effects: {dict(Counter(f'{effect.kind} {effect.state}' for effect in effects))}")
    assert [order for order, times in done.items() if times > 1] == []
    for effect in effects:
        expected = {"done": {1}, "failed": {0}, "unknown": {0, 1}}[effect.state]
        assert done[effect.key] in expected, (effect, effect.last_reply)
        assert effect.state != "failed" or effect.key.startswith("decline"), (effect, effect.last_reply)
        if effect.state == "unknown":
            assert effect.kind == BLIND, (effect, effect.last_reply)
            is_killed = effect.last_reply == LEDGER.no_word and int(effect.claimed_by.rpartition(":")[2]) in killed
            is_explained = effect.key.startswith(MAY_BE_UNKNOWN) or effect.last_reply.startswith(GAVE_UP)
            assert is_killed or is_explained, (effect, effect.last_reply)
    assert {effect.kind for effect in effects} == set(refunds.KINDS)


def unfinished() -> bool:
    """Return whether an effect will still change by itself."""
    return Effect.objects.filter(state__in=("pending", "claimed", "begun")).exists()
