"""`-p tests.put_off --put-off FILE`: what was too late twice is run once more, when nothing runs beside it.

Such a test is not a failure of this test run: it is counted as late, and FILE lists it, for `pytest @FILE`. There it
fails like any other. What was wrong, and not late, fails immediately (tests/waiting.py).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import TooLateError

NAME = f"{TooLateError.__module__}.{TooLateError.__qualname__}: "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--put-off", type=Path, metavar="FILE", help="list in FILE what was too late twice")


def pytest_configure(config: pytest.Config) -> None:
    """Register PutOff in the process that gathers the reports; processes that only run tests send theirs to it."""
    if (file := config.getoption("--put-off")) and not hasattr(config, "workerinput"):
        file.unlink(missing_ok=True)
        config.pluginmanager.register(PutOff(file))


class PutOff:
    """Turns the report of a test that was too late into one that counts as late, and lists the test."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Iterator[None]:
        """Run before all other hooks: pytest counts what failed, and decides by that on the exit status."""
        if report.failed and _is_too_late(report):
            report.outcome = "late"  # type: ignore[assignment]  # other plugins add outcomes, too: rerun
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as listed:
                listed.write(f"{report.nodeid}\n")
        yield

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("late", "L", "LATE") if report.outcome == "late" else None  # type: ignore[comparison-overlap]


def _is_too_late(report: pytest.TestReport) -> bool:
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash is not None and crash.message.startswith(NAME)
