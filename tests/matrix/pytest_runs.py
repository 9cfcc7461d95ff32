"""One run: the unit and integration tests with the versions of the run, and how many of them passed."""

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from project import embedded
from project.checkout import CHECKOUT
from tests.matrix.environments import django_of, python_of
from tests.matrix.machine import source, version_of
from tests.matrix.places import HOME, LOGS, STAND_INS
from tests.matrix.stand_ins import lay
from tests.matrix.versions import Versions

TESTS = ("tests/unit", "tests/integration")
PYTEST = ("-m", "pytest", "--verbose")
BESIDE_EACH_OTHER = (
    *("--numprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0"),
    *("-m", "not alone"),
)
NOT_HANDED_ON = ("WEIR_TEST_DATABASE_URL", "WEIR_TEST_REDIS_URL", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a run. `exact` are the versions to the last number."""

    run: Versions
    exact: Versions
    status: int  # of pytest
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    log: Path

    @property
    def passed(self) -> int:
        return self.counts.get("passed", 0)

    @property
    def failed(self) -> int:
        return self.counts.get("failed", 0) + self.counts.get("error", 0)

    @property
    def skipped(self) -> int:
        return self.counts.get("skipped", 0)

    @property
    def is_good(self) -> bool:
        """Tell whether tests ran, and none failed."""
        return self.status == 0 and not self.failed and self.passed > 0

    def __str__(self) -> str:
        rerun = f", {self.counts['rerun']} run again" if "rerun" in self.counts else ""
        rerun += f", {self.counts['late']} of them alone" if "late" in self.counts else ""
        return (
            f"{self.run.name}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped{rerun}, "
            f"{self.seconds:.0f} s"
        )


def carry_out(run: Versions, tests: Sequence[str] = TESTS) -> Result:
    """Run the tests, on servers of the run's versions; raises Lacking where one of them cannot be had."""
    postgres, redis = source("postgresql", run.postgresql).provide(), source("redis", run.redis).provide()
    python = python_of(run)
    stand_ins = lay(STAND_INS / run.name, run, postgres=postgres, redis=redis)
    env = {name: value for name, value in os.environ.items() if name not in NOT_HANDED_ON}
    env |= {"PYTHONPATH": str(stand_ins), "WEIR_TEST_HOME": str(HOME)}
    LOGS.mkdir(parents=True, exist_ok=True)
    log, late, began_at = LOGS / f"{run.name}.log", LOGS / f"{run.name}.late", time.monotonic()
    _discard_servers()  # of a run that was killed
    put_off = ("-p", "tests.put_off", "--put-off", late)
    status, counts = _tested([python, *PYTEST, *BESIDE_EACH_OTHER, *put_off, *tests], env, log, "wb")
    if late.exists():
        status_alone, counts_alone = _tested([python, *PYTEST, f"@{late}"], env, log, "ab")
        status, counts = status or status_alone, counts + counts_alone
    _discard_servers()
    return Result(
        run=run,
        exact=_exact(python, postgres, redis),
        status=status,
        seconds=time.monotonic() - began_at,
        counts=counts,
        log=log,
    )


def _tested(command: Sequence[str | Path], env: dict[str, str], log: Path, mode: str) -> tuple[int, Counter[str]]:
    """Return pytest's exit status, and how many tests passed, failed and so on; its output goes to the log."""
    began_at = log.stat().st_size if mode == "ab" else 0
    with log.open(mode) as output:
        ended = subprocess.run(command, check=False, cwd=CHECKOUT, env=env, stdout=output, stderr=subprocess.STDOUT)
    return ended.returncode, Counter(counted(log.read_bytes()[began_at:].decode(errors="replace")))


def _discard_servers() -> None:
    """Delete the servers' data: the next run may have others, which could not read it."""
    HOME.mkdir(parents=True, exist_ok=True)
    for home in (*HOME.glob("gw*"), HOME):
        embedded.discard(home)


def counted(output: str) -> dict[str, int]:
    """Return what pytest's last line counts: {"passed": 3859, "skipped": 4}; nothing where it did not come so far."""
    closing = re.findall(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.:]+s", output, re.MULTILINE)
    found = re.findall(r"(\d+) (\w+)", closing[-1]) if closing else []
    return {word.removesuffix("s") if word == "errors" else word: int(number) for number, word in found}


def last_words(result: Result) -> str:
    """Return pytest's summary of what failed, or the end of what it said."""
    text = result.log.read_text(errors="replace")
    summary = [line for line in text.splitlines() if line.startswith(("FAILED tests/", "ERROR tests/"))]
    return "\n".join(summary or text.splitlines()[-20:])


def _exact(python: Path, postgres: Path, redis: Path) -> Versions:
    return Versions(version_of(python), django_of(python), version_of(postgres / "bin" / "postgres"), version_of(redis))
