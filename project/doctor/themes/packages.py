"""Python and the packages: whether their versions are those that pyproject.toml asks for."""

import importlib.metadata
import os
import platform
import tomllib
from collections.abc import Callable, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from project.checkout import CHECKOUT
from project.doctor.findings import Check, Verdict, good, wrong

REMEDY = "run `make install`, or build the image anew"
EMBEDDED = ("DATABASE_URL", "REDIS_URL")  # if one of these is not set, its server comes as a package


def python_version(running: str, wanted: str) -> Verdict:
    """Judge the version of Python."""
    if running in SpecifierSet(wanted):
        return good(f"Python {running}.")
    return wrong(
        f"Python {running} runs this, and Weir needs {wanted}: make .venv anew, with `make install PYTHON=...`."
    )


def packages(requirements: Sequence[str], installed: Callable[[str], str | None]) -> Verdict:
    """Judge the versions of the packages; `installed` returns the version of a package, None if it is missing."""
    needed = [wanted for wanted in map(Requirement, requirements) if wanted.marker is None or wanted.marker.evaluate()]
    faults = [fault for wanted in needed if (fault := _fault(wanted, installed(wanted.name)))]
    if faults:
        return wrong(f"{'; '.join(faults)}: {REMEDY}.")
    return good(f"All {len(needed)} are of the versions that pyproject.toml asks for.")


def _fault(wanted: Requirement, version: str | None) -> str | None:
    if version is None:
        return f"{wanted.name} is not installed"
    if wanted.specifier.contains(version, prereleases=True):
        return None
    return f"{wanted.name} is {version} instead of {wanted.specifier}"


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check_packages() -> Verdict:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    servers = project["optional-dependencies"]["embedded"] if not all(map(os.environ.get, EMBEDDED)) else []
    return packages([*project["dependencies"], *project["optional-dependencies"]["standalone"], *servers], _installed)


def _check_python() -> Verdict:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return python_version(platform.python_version(), project["requires-python"])


def checks() -> list[Check]:
    """Return the checks of this theme."""
    return [Check(name="Python", ask=_check_python), Check(name="packages", ask=_check_packages)]
