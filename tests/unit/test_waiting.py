"""A test that was too late is run once more, and no other."""

import re
import subprocess
import sys
from pathlib import Path

from project.checkout import CHECKOUT

RUNS = """
from tests.waiting import in_time, once_more_if_too_late, wait_for

def pytest_collection_modifyitems(items):
    for item in items:
        once_more_if_too_late(item)
"""
TESTS = """
from tests.waiting import comes_true, in_time, wait_for

runs = []

def test_late_once():
    runs.append(None)
    wait_for(lambda: len(runs) > 1, 0.0, "the second run")

def test_late_for_a_minute(monkeypatch):
    monkeypatch.setattr("tests.waiting.comes_true", lambda *_, **__: False)
    wait_for(lambda: False, 60.0, "what is lost")

def test_late_twice():
    in_time(False, "never in time")

def test_wrong():
    runs.append(None)
    assert len(runs) > 3

def test_promise():
    runs.append(None)
    assert comes_true(lambda: len(runs) > 4, 0.0)
"""


def test_what_is_too_late_is_run_once_more_and_what_is_wrong_is_not(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RUNS)
    (tmp_path / "test_runs.py").write_text(TESTS)
    options = ["-p", "no:django", "-p", "no:cacheprovider", "-c", "/dev/null", "-q", "--rootdir", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    failed = re.findall(r"^FAILED .*::(\w+)", ended.stdout, flags=re.MULTILINE)
    assert failed == ["test_late_for_a_minute", "test_late_twice", "test_wrong", "test_promise"]
    assert "4 failed, 1 passed, 2 rerun" in ended.stdout, ended.stdout
