"""What came of a run is counted right, and stands in the table of versions."""

from pathlib import Path

from tests.cases import for_each
from tests.matrix import page
from tests.matrix.machine import Source
from tests.matrix.pytest_runs import Result, counted
from tests.matrix.versions import Versions, parsed

RUN = parsed("py3.13-dj6.0-pg15-redis7")
EXACT = Versions("3.13.0", "6.0.4", "15.18", "7.0.15")
PAGE = """\
# Versions

<!-- begin: runs -->
<!-- end: runs -->

Between.

<!-- begin: not tried -->
<!-- end: not tried -->
"""


def result(run: Versions = RUN, status: int = 0, **counts: int) -> Result:
    return Result(run=run, exact=EXACT, status=status, seconds=312.4, counts=counts, log=Path("log"))


@for_each(
    ("closing", "counts"),
    [
        ("==== 3859 passed, 4 skipped in 312.45s (0:05:12) ====", {"passed": 3859, "skipped": 4}),
        ("= 2 failed, 1 passed, 3 warnings, 1 rerun in 9.01s =", {"failed": 2, "passed": 1, "warnings": 3, "rerun": 1}),
        ("==== 1 passed, 2 errors in 1.00s ====", {"passed": 1, "error": 2}),
        ("==== 1 error in 1.00s ====", {"error": 1}),
        ("3859 passed in 3.00s", {"passed": 3859}),
        ("no tests ran in 0.01s", {}),
        ("ImportError: no module", {}),
    ],
)
def test_the_last_line_of_pytest_is_counted(closing: str, counts: dict[str, int]) -> None:
    """A line before it that looks like one is not."""
    assert counted(f"==== 9 passed in 1.0s ====\nmore\n{closing}\n" if counts else closing) == counts


@for_each(
    ("found", "is_good"),
    [
        (result(passed=1), True),
        (result(passed=1, failed=1, status=1), False),
        (result(passed=1, error=1, status=1), False),
        (result(passed=1, status=3), False),
        (result(skipped=1), False),
        (result(), False),
    ],
)
def test_a_run_is_good_if_tests_passed_and_none_failed(found: Result, is_good: bool) -> None:
    """A run in which no test ran is none."""
    assert found.is_good is is_good


def test_a_result_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    """Rows of other runs stay; the newest versions come first, and what stands around the tables is kept."""
    file = tmp_path / "versions.md"
    file.write_text(PAGE)
    default = parsed("py3.11-dj5.2-pg18-valkey9")

    for found in (result(passed=1, failed=2), result(default, passed=3859, skipped=4), result(passed=3850)):
        page.write(file, found, [RUN, default], [])

    text = file.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[0] for row in rows] == [f"| `{default.name}`", f"| `{RUN.name}`"]
    assert rows[1].endswith("| 3.13.0, 6.0.4, 15.18, 7.0.15 | 3,850 | 0 | 0 |")
    assert "\n\nBetween.\n\n" in text
    assert "Nothing." in text


def test_what_was_not_tried_is_said(tmp_path: Path) -> None:
    """What the machine lacks, unless another has tried it, and how many pairs are left."""
    file = tmp_path / "versions.md"
    file.write_text(PAGE)
    lacking = [
        Source(kind="python", value="3.14", remedy="install it"),
        Source(kind="redis", value="redis7", remedy="install it"),
    ]

    page.write(file, result(passed=1), [RUN, RUN._replace(python="3.12")], lacking)

    text = file.read_text()
    assert "- Python 3.14: the machine had none (install it).\n" in text
    assert "Redis 7: the machine" not in text
    assert "- 3 pairs of the rest" in text
