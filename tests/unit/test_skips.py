"""What all runs of CI skipped is counted by its reasons, and a process that hands on its reports counts nothing."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import skips


def _end_of_run(*reasons: str, **config: object) -> None:
    reports = [SimpleNamespace(longrepr=("file", 7, f"Skipped: {reason}")) for reason in reasons]
    stats = {"skipped": reports} if reports else {}
    skips.pytest_terminal_summary(SimpleNamespace(stats=stats), SimpleNamespace(**config))


def test_reasons_of_several_runs_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most frequent is named first; a run that skipped nothing counts as a run."""
    file = tmp_path / "new" / "skipped"
    monkeypatch.setenv("WEIR_TEST_SKIPPED", str(file))
    _end_of_run("no root", "takes minutes")
    _end_of_run("takes minutes", workerinput={})
    _end_of_run()
    _end_of_run("takes minutes")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        ["no root", "takes minutes"],
        [],
        ["takes minutes"],
    ]
    program = [sys.executable, skips.__file__]
    told = [subprocess.check_output([*program, named], text=True) for named in (file, tmp_path / "none")]
    assert told == [
        "Skipped in 3 test runs: 3; 2 as 'takes minutes'; 1 as 'no root'\n",
        "Skipped in 0 test runs: 0\n",
    ]


def test_nothing_is_written_where_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, no file is left."""
    monkeypatch.delenv("WEIR_TEST_SKIPPED", raising=False)
    monkeypatch.chdir(tmp_path)
    _end_of_run("no root")
    assert list(tmp_path.iterdir()) == []
