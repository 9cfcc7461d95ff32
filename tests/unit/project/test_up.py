"""What `up` gives its processes, and what keeps it from starting them."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.test import modify_settings

from project.processes import loading, up

WARN = "from celery import platforms as p; p._warn_or_raise_security_error(0, 0, 0, 0, False)"


@pytest.mark.parametrize(("given", "is_told"), [("", False), ("error::ResourceWarning", False), ("always", True)])
def test_a_worker_does_not_tell_root_to_be_another_user(
    given: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the variables of whoever starts `up` say otherwise."""
    monkeypatch.setenv("PYTHONWARNINGS", given)
    environment = up._logs()
    ran = subprocess.run(
        [sys.executable, "-c", WARN], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert ("SecurityWarning" in ran.stderr) is is_told


def test_tasks_that_cannot_be_imported_are_told_in_a_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is the last of them."""
    assert loading.refusal_of_tasks() == ""
    (tmp_path / "half_edited").mkdir()
    (tmp_path / "half_edited/__init__.py").touch()
    (tmp_path / "half_edited/tasks.py").write_text("from half_edited import prices\n")
    monkeypatch.syspath_prepend(tmp_path)
    with modify_settings(INSTALLED_APPS={"append": "half_edited"}):
        lines = loading.refusal_of_tasks().splitlines()
    assert len(lines) <= loading.MOST_LINES
    assert lines[-2].strip() == "from half_edited import prices"
    assert lines[-1].startswith("ImportError: cannot import name 'prices'")
