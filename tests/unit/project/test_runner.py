"""`manage.py test` without a label finds the tests of all apps beside Weir's rooms."""

import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.checkout import CHECKOUT
from project.testing import Runner

TEST = "from unittest import TestCase\n\n\nclass Of{name}(TestCase):\n    def test_it(self): ...\n"


def found() -> list[str]:
    """Return what is found in the current folder."""
    return sorted(type(test).__name__ for test in _tests(Runner(verbosity=0).build_suite()))


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase | unittest.TestSuite]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _tests(test)
        else:
            yield test


def test_nothing_of_a_checkout_fails_to_be_imported() -> None:
    """A room at the top is imported as weir.ROOM alone, and has no tests: nothing looks into it.

    In a process of its own: what is looked into, such as tests.guest, has a Celery app that would be the current one.
    """
    code = f"import django; django.setup(); from {__name__} import found; print(found())"
    ran = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ran.stdout == "[]\n", ran


def test_tests_of_apps_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In packages, at any depth, beside manage.py, and in the folder for one's own apps."""
    files = {
        "App": "found_app/tests.py",
        "Own": "local/own_app/tests.py",
        "Part": "found_app/part/test_it.py",
        "Top": "test_top.py",
    }
    for name, below in files.items():
        file = tmp_path / below
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEST.format(name=name))
    for folder in ("found_app", "found_app/part", "local/own_app"):
        (tmp_path / folder / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, tmp_path / "local"):  # as project.settings has both
        monkeypatch.syspath_prepend(path)
    assert found() == ["OfApp", "OfOwn", "OfPart", "OfTop"]
