"""benchmarks.capacity: what three turns tell of a fetch and a fetcher, and what pgbench is told and says."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.capacity import pgbench
from benchmarks.capacity.fetching import Turn, parts
from benchmarks.capacity.usage import Usage

SAID = """\
transaction type: multiple scripts
number of transactions actually processed: 900
number of transactions skipped: 100 (10.000%)
number of transactions above the 500.0 ms latency limit: 50/900 (5.556%)
latency average = 12.345 ms
rate limit schedule lag: avg 4.137 (max 30.5) ms
"""


def turn(fetchers: int, fetches: float) -> Turn:
    return Turn(fetchers=fetchers, fetches=fetches, used=Usage(0, 0, 0), sessions=0)


def test_what_was_used_is_told_apart() -> None:
    """Of 2 for each fetch, 30 for each fetcher and 7 for the others, though the rates were not quite alike."""
    turns = [turn(1, 100), turn(4, 90), turn(1, 600)]
    found = parts(turns, [2 * one.fetches + 30 * one.fetchers + 7 for one in turns])
    assert (found.fetch, found.fetcher, found.others) == pytest.approx((2, 30, 7))


def asking(says: str, status: int = 0) -> pgbench.Asking:
    script = f"import sys; print({says!r}); sys.exit({status})"
    return pgbench.Asking(
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    )


def test_what_was_skipped_or_late_was_not_in_time() -> None:
    """150 of the thousand that were to be asked."""
    assert asking(SAID).ended() == pgbench.Asked(in_time=0.85, latency_ms=12.345)


@pytest.mark.parametrize(("says", "status"), [(SAID, 1), (SAID.replace("skipped", "left out"), 0)])
def test_a_pgbench_that_failed_tells_nothing(says: str, status: int) -> None:
    with pytest.raises(RuntimeError, match="actually processed"):
        asking(says, status).ended()


def test_the_statements_are_those_of_the_files_with_values(tmp_path: Path) -> None:
    """A parameter that is new in a file fails here, and not after three minutes."""
    for package, name, parameters, _ in pgbench.ASKED:
        script = pgbench.script(tmp_path, package, name, parameters, 1_000).read_text()
        assert script.startswith("\\set process random(1, 1000)\n")
        assert "%(" not in script
        assert script.endswith(";\n")
    assert pgbench.A_FETCHER_S == 21
