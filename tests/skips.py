"""`WEIR_TEST_SKIPPED=FILE`: each test run adds to FILE what it skipped, and why. `python tests/skips.py FILE` adds up.

pytest counts what one run skipped. CI makes several, and says in one line what was skipped in any of them.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Add a line with the reasons, in the process that gathers the reports of all others under pytest-xdist."""
    if (named := os.environ.get("WEIR_TEST_SKIPPED")) and not hasattr(config, "workerinput"):
        skipped = [report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])]
        file = Path(named)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as runs:
            runs.write(f"{json.dumps(skipped)}\n")


def summed_up(runs: list[list[str]]) -> str:
    """Return the line: how many tests all runs skipped, and for which reasons, the most frequent first."""
    reasons = Counter(reason for skipped in runs for reason in skipped)
    line = f"Skipped in {len(runs)} test runs: {reasons.total()}"
    return line + "".join(f"; {count} as {reason!r}" for reason, count in reasons.most_common())


if __name__ == "__main__":
    found = Path(sys.argv[1])
    lines = found.read_text().splitlines() if found.exists() else []
    print(summed_up([json.loads(line) for line in lines]))
