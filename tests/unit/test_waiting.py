"""A test that was too late is run once more, and no other; late twice, it can be put off until nothing runs beside."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies

from project.checkout import CHECKOUT
from tests import waiting
from tests.matrix.pytest_runs import BESIDE_EACH_OTHER
from tests.waiting import LONG_S

RunPytest = Callable[..., subprocess.CompletedProcess[str]]
RUNS = """
import pytest

from tests.waiting import count_reruns_here, once_more_if_too_late

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    count_reruns_here(config)

def pytest_collection_modifyitems(items):
    for item in items:
        once_more_if_too_late(item)
"""
ASKS_NOBODY = """
import os

def test_asks_nobody(pytestconfig):
    assert not hasattr(pytestconfig.failures_db, "sock")

def test_ends_its_process():
    os._exit(1)
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


@pytest.fixture
def run(tmp_path: Path) -> RunPytest:
    """Return a function that runs these tests, and returns what pytest says."""
    (tmp_path / "conftest.py").write_text(RUNS)
    (tmp_path / "test_runs.py").write_text(TESTS)
    plain = ["-p", "no:cacheprovider", "-c", "/dev/null", "-q", "--rootdir", str(tmp_path)]
    plugins = ["-p", "xdist", "-p", "rerunfailures"]  # others take longer to import than the tests take
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run_pytest(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", *plain, *plugins, *options]
        return subprocess.run(
            command, cwd=CHECKOUT, capture_output=True, text=True, check=False, env=environment, timeout=LONG_S
        )

    return run_pytest


def failed_in(output: str) -> list[str]:
    return sorted(re.findall(r"^FAILED .*::(\w+)", output, flags=re.MULTILINE))


def test_what_is_too_late_is_run_once_more_and_what_is_wrong_is_not(run: RunPytest, tmp_path: Path) -> None:
    ended = run(str(tmp_path))
    assert failed_in(ended.stdout) == ["test_late_for_a_minute", "test_late_twice", "test_promise", "test_wrong"]
    assert "4 failed, 1 passed, 2 rerun" in ended.stdout, ended.stdout


@pytest.mark.parametrize("processes", [0, 2])
def test_what_is_too_late_twice_can_be_put_off(run: RunPytest, tmp_path: Path, processes: int) -> None:
    """What is wrong, or late for a minute, fails as ever; what was put off fails where nothing runs beside it."""
    late = tmp_path / "folder" / "late"
    xdist = ["--numprocesses", str(processes)]
    ended = run("-p", "tests.put_off", "--put-off", str(late), *xdist, str(tmp_path))
    assert failed_in(ended.stdout) == ["test_late_for_a_minute", "test_promise", "test_wrong"]
    assert "3 failed, 1 passed, 2 rerun, 1 late" in ended.stdout, ended.stdout
    assert late.read_text() == "test_runs.py::test_late_twice\n"
    assert (
        run(
            "-p", "tests.put_off", "--put-off", str(late), *xdist, f"{tmp_path}/test_runs.py::test_late_once"
        ).returncode
        == 0
    )
    assert not late.exists()


def test_late_tests_alone_are_no_failure(run: RunPytest, tmp_path: Path) -> None:
    """The list alone decides, then."""
    late, test = tmp_path / "late", f"{tmp_path}/test_runs.py::test_late_twice"
    assert run("-p", "tests.put_off", "--put-off", str(late), test).returncode == 0
    assert run(test).returncode == 1


def test_no_process_is_asked_before_each_test(run: RunPytest, tmp_path: Path) -> None:
    """What ends the process that runs it is not run again, and nobody waits for that process."""
    (tmp_path / "test_runs.py").write_text(ASKS_NOBODY)
    [options] = re.findall(r"^SLOWEST_FIRST = (.*)", (CHECKOUT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {*options.split()} <= {*BESIDE_EACH_OTHER}
    ended = run("--numprocesses", "1", *options.split(), str(tmp_path))
    assert failed_in(ended.stdout) == ["test_ends_its_process"]
    assert "1 failed, 1 passed in" in ended.stdout, ended.stdout


def test_a_long_wait_asks_less_often_and_looks_last_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask takes the processors from what the test waits for; a time-out is no longer for it."""
    now_s = 0.0
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    assert not waiting.comes_true(lambda: looks.append(now_s), 10.0, every_s=0.05)
    gaps = [later - earlier for earlier, later in pairwise(looks)]
    assert max(gaps[:20]) < 0.051
    assert max(gaps) < 0.201
    assert len(looks) < 100
    assert 10.0 <= looks[-1] < 10.051


def test_no_example_has_to_come_soon() -> None:
    """Whatever hypothesis does by itself: a machine may stand still at any moment."""
    runs: list[int] = []

    @given(strategies.integers())
    def stands_still_once(number: int) -> None:
        runs.append(number)
        if len(runs) == 3:
            time.sleep(0.25)

    stands_still_once()
    assert len(runs) > 3
