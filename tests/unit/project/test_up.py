"""What `up` gives its processes."""

import subprocess
import sys

import pytest

from project.processes import up

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
