"""What requirements.lock has, and what it must have."""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from project.checkout import CHECKOUT


@cache
def locked() -> dict[str, Requirement]:
    """Return the requirements that it has, by name."""
    text = (CHECKOUT / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line.partition(" --hash")[0] for line in text.splitlines() if not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)}


def declared() -> list[str]:
    """Return the dependencies of pyproject.toml, with those of the standalone project."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["standalone"]]


def _applying(texts: Iterable[str], *, extra: str) -> list[Requirement]:
    """Return the requirements that apply here."""
    parsed = map(Requirement, texts)
    return [found for found in parsed if found.marker is None or found.marker.evaluate({"extra": extra})]


def needed() -> set[str]:
    """Return the names of all packages that Weir needs here, including those that other packages need."""
    waiting = _applying(declared(), extra="")
    found: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for other, extra in found if other == name}:
            found.add((name, extra))
            waiting += _applying(requires(name) or [], extra=extra)
    return {name for name, _ in found}
