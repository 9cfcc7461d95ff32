"""Finds the folders of the SQL statements and Lua scripts that a module declares."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def folder_of(module: Mapping[str, Any], name: str) -> tuple[str, Path]:
    """Return the nearest package that has a folder of this name, and this folder.

    The search begins with the module's own package, and goes on with the packages above it. `module` has the module's
    globals. Raises LookupError if no package has such a folder.
    """
    package, folder = str(module["__package__"]), Path(module["__file__"]).parent
    while not (folder / name).is_dir():
        package, folder = package.rpartition(".")[0], folder.parent
        if not package:
            raise LookupError(f"no package of {module['__name__']} has a folder {name}/")
    return package, folder / name
