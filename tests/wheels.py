"""The distribution `django-weir`, built as a wheel from the files that a commit of everything here would have."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from project.checkout import CHECKOUT


def tracked() -> list[str]:
    """Return the files that a commit of everything here would have."""
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip("only a git checkout knows what is tracked")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    return [name for name in listing.split("\0") if name and os.path.lexists(CHECKOUT / name)]


def build(folder: Path) -> Path:
    """Build it in a copy, in the folder: in the checkout, it would also include what an earlier build left behind."""
    copy, built = folder / "copy", folder / "built"
    for name in tracked():
        to = copy / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, to, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "--wheel-dir", built, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [file] = built.iterdir()
    return file
