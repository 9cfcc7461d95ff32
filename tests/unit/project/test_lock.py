"""requirements.lock, which the image installs: it is what pyproject.toml and constraints.txt say, with hashes."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from project.checkout import CHECKOUT
from tests.locked import declared, locked, needed

AGAIN = "`make lock` writes it anew"


def pinned() -> dict[str, str]:
    """Return the versions that constraints.txt names."""
    found = re.findall(r"^(.+)==(.+)$", (CHECKOUT / "constraints.txt").read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_each_line_is_one_version_with_hashes() -> None:
    """No name is without a hash, and no index, file or other address is named."""
    text = (CHECKOUT / "requirements.lock").read_text()
    entries = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()

    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9.-]+==[^ ;]+( ; [^;]+?)?( +--hash=sha256:[0-9a-f]{64})+", entry), entry
    assert "://" not in text


def test_it_agrees_with_the_constraints() -> None:
    """Each has the version that constraints.txt names; what is not named there is for other platforms than most."""
    versions = {name: str(requirement.specifier).removeprefix("==") for name, requirement in locked().items()}

    assert {name: versions[name] for name in versions.keys() & pinned()} == {
        name: pinned()[name] for name in versions.keys() & pinned()
    }, AGAIN
    assert [name for name in versions.keys() - pinned() if locked()[name].marker is None] == [], AGAIN


def test_it_has_what_is_declared() -> None:
    """Each dependency of pyproject.toml is there, within its bounds."""
    for requirement in map(Requirement, declared()):
        version = str(locked()[canonicalize_name(requirement.name)].specifier).removeprefix("==")
        assert requirement.specifier.contains(version), f"{requirement}: {AGAIN}"


@pytest.mark.skipif(Path(sys.prefix) != CHECKOUT / ".venv", reason="other versions of the matrix need other packages")
def test_it_has_what_is_needed() -> None:
    """All that these dependencies need is there, and nothing else."""
    here = {name for name, found in locked().items() if found.marker is None or found.marker.evaluate()}
    assert here == needed(), AGAIN


def test_the_image_installs_it() -> None:
    """And nothing that has no hash."""
    lines = (CHECKOUT / "Dockerfile").read_text().replace("\\\n", " ")

    assert re.findall(r"pip install (.*?) +&&", lines) == [
        "--only-binary :all: --require-hashes -r requirements.lock",
        "-r requirements.txt",  # of local/, which whose project it is writes
    ]
