"""The great run: all jobs under load, while every kind of process and both servers are killed, among other faults."""

import os
import random
import time
from collections import Counter

import psutil
import pytest

from tests.acceptance.conftest import Cluster
from tests.acceptance.great_run import stage as stages
from tests.acceptance.great_run.judging import Judge
from tests.acceptance.great_run.kills import Kills
from tests.acceptance.great_run.schedule import FaultSchedule
from tests.acceptance.great_run.stage import Stage
from tests.home import HOME

pytestmark = [pytest.mark.alone, pytest.mark.faults]
AT_LENGTH = "WEIR_FAULTS" in os.environ
SECONDS = float(os.environ.get("WEIR_FAULTS_SECONDS", "300" if AT_LENGTH else "8"))
KILLS = int(os.environ.get("WEIR_FAULTS_KILLS", "850" if AT_LENGTH else "20"))
SEED = os.environ.get("WEIR_FAULTS_SEED", "weir")
SITES = 36 if AT_LENGTH else 12
MINUTE_S, LULL_EVERY_S = 60.0, 600.0
CATCHES_UP_S = 60.0  # of kills that were due while there were none
RESTS_WITHIN_S = 180.0
TURN_S = 0.02
MOST_LINES = 40
LOG = HOME / "great-run.log"


def test_nothing_is_early_lost_wrong_or_twice(cluster: Cluster) -> None:
    """Kills of each kind, and faults, for SECONDS and KILLS, whichever takes longer; then all comes to rest."""
    chance = random.Random(SEED)  # noqa: S311  what is killed, and when
    LOG.unlink(missing_ok=True)
    with stages.running(cluster, SITES, chance) as stage:
        stage.start_all()
        kills, faults, judge = Kills(stage, chance), FaultSchedule(stage, chance), Judge(stage=stage)
        tell(f"WEIR_FAULTS_SEED={SEED}: {KILLS} kills in {SECONDS:g} s")
        began = time.monotonic()
        run(stage, kills, faults, judge)
        ran_s = time.monotonic() - began
        rest_s = come_to_rest(stage, judge)
        found, work = judge.found(), judge.work()
        for name in stages.NAMES:
            stage.look_at_log(name)
        tell(table(kills.counts, "kind"))
        tell(table(faults.counts, "fault"))
        tell(table(stage.errors, "error in logs"))
        tell(table(judge.failed(), "failed"))
        tell(
            f"{kills.counts.total()} kills and {faults.counts.total()} faults in {ran_s:.0f} s; "
            f"{judge.committed()}; at rest after {rest_s:.1f} s; {judge.line()}; {found}; left over {stage.left_over()}"
        )
    assert judge.violations == []
    assert not any(found.values()), found
    assert min(kills.counts.values()) > 0, kills.counts
    assert faults.counts
    assert min(work.values()) > 0, work


def run(stage: Stage, kills: Kills, faults: FaultSchedule, judge: Judge) -> None:
    """Kill at random moments, and have one fault after the other, until time and kills are over.

    Servers are spared during a fault: where one was never killed, the run goes on for some time.
    """
    began = kill_at = time.monotonic()
    look_at, lull_at = began + MINUTE_S, began + LULL_EVERY_S
    pause_s = SECONDS / (KILLS * 1.02)
    while (
        (now := time.monotonic()) < began + SECONDS
        or kills.counts.total() < KILLS
        or (not all(kills.counts.values()) and now < began + SECONDS + CATCHES_UP_S)
    ):
        stage.tend()
        faults.turn()
        if now >= kill_at:
            kills.one(spare_servers=faults.current is not None)
            kill_at += kills.pause(pause_s)
        if now >= look_at and not faults.current:
            judge.look()
            tell(f"{now - began:.0f} s: {kills.counts.total()} kills; {judge.line()}; {load()}")
            look_at += MINUTE_S
        if now >= lull_at:
            faults.end()
            tell(f"{now - began:.0f} s: all numbers are right {lull(stage, judge):.1f} s after the last kill")
            lull_at += LULL_EVERY_S
            kill_at = max(kill_at, time.monotonic() - CATCHES_UP_S)
        time.sleep(TURN_S)
    faults.end()


def lull(stage: Stage, judge: Judge) -> float:
    """Let web code rest until all numbers are right; returns after how many seconds."""
    stage.crowd.kill_all("producer", "holder")
    began = time.monotonic()
    judge.must(lambda: not judge.wrong(), RESTS_WITHIN_S, "numbers become right")
    waited_s = time.monotonic() - began
    stage.start_crowd("producer", "holder")
    return waited_s


def come_to_rest(stage: Stage, judge: Judge) -> float:
    """Let web code end, and wait until nothing is unfinished; returns after how many seconds."""
    stage.crowd.kill_all("producer", "holder")
    began = time.monotonic()
    judge.must(lambda: not any(judge.unfinished().values()), RESTS_WITHIN_S, "all comes to rest")
    rest_s = time.monotonic() - began
    judge.look()
    return rest_s


def load() -> str:
    """Return how much of the processors was used since the last call, and how much memory."""
    return f"{psutil.cpu_percent():.0f} % of the processors, {psutil.virtual_memory().percent:.0f} % of memory"


def table(counts: Counter[str], what: str) -> str:
    return "\n".join(
        [f"| {what} | times |", "|---|---|", *(f"| {key} | {count} |" for key, count in counts.most_common())]
    )


def tell(line: str) -> None:
    """Print a line, and keep it in a file, which is there also where the run was cut off."""
    text = f"{time.strftime('%H:%M:%S')} {line}"
    print(text, flush=True)
    with LOG.open("a") as file:
        file.write(text + "\n")
