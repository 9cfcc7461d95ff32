"""What a benchmark says of the sites that it watched."""

from pathlib import Path

import pytest

from benchmarks.fetches.measured import Measured
from demo.fakes.judge import NANOSECONDS


@pytest.fixture
def seen(tmp_path: Path) -> Measured:
    """Two sites are asked from the 10th second on, the second one twice a second and once too early, after the 20th."""
    log = tmp_path / "requests.log"
    arrivals = [("one", second * 10) for second in range(10, 25)]
    arrivals += [("two", tenths) for tenths in range(100, 240, 5)] + [("two", 238), ("other", 150)]
    log.write_text("".join(f"{tenths * NANOSECONDS // 10} {host} / 127.0.0.1 1\n" for host, tenths in arrivals))
    return Measured(log=log, from_ns=12 * NANOSECONDS, until_ns=20 * NANOSECONDS, given_back=0)


def test_the_used_share_is_that_of_the_time_that_counts(seen: Measured) -> None:
    """Eight of the sixteen requests that 2/s allows in eight seconds; and of both sites together."""
    assert seen.used_share(["one"], 2) == 0.5
    assert seen.used_share(["one", "two"], 2) == 0.75


def test_a_start_is_early_whenever_it_was(seen: Measured) -> None:
    """An interval is broken also outside the time that counts; other sites have other rates."""
    assert seen.early_starts(["one"], 1) == 0
    assert seen.early_starts(["one", "two"], 2) == 1
    assert seen.early_starts(["absent"], 2) == 0
