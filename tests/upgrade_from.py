"""The version that can be upgraded to this one without a stop: the commit in deploy/UPGRADE_FROM."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from project.checkout import CHECKOUT

FILE = CHECKOUT / "deploy" / "UPGRADE_FROM"


def commit() -> str:
    """Return the commit; skip the test where this clone cannot have it."""
    [named] = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    if _git("cat-file", "-e", f"{named}^{{commit}}").returncode == 0:
        return named
    asked = _git("rev-parse", "--is-shallow-repository")
    if asked.returncode:
        pytest.skip(f"this is no clone, which would have the version before: {asked.stderr.decode().strip()}")
    if asked.stdout.strip() == b"true":
        pytest.skip(f"{FILE.name} names {named[:7]}, which this shallow clone does not have: git fetch --unshallow")
    pytest.fail(f"{FILE.name} names {named}, which is no commit of this repository")


def files(folder: str = ".") -> set[str]:
    """Return the paths of that version's files below a folder."""
    return set(_git("ls-tree", "-r", "--name-only", commit(), folder).stdout.decode().splitlines())


def text(path: str) -> str:
    """Return the text of one of that version's files."""
    shown = _git("show", f"{commit()}:{path}")
    shown.check_returncode()
    return shown.stdout.decode()


def check_out(folder: Path) -> None:
    """Write that version's files to a folder."""
    archive = _git("archive", "--format=tar", commit())
    archive.check_returncode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, b"", b"git is not installed (Debian: apt install git)")
