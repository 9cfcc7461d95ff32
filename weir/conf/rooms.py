"""The folders of the files that a module declares: its statements, its scripts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def folder_of(module: Mapping[str, Any], name: str) -> tuple[str, Path]:
    """Return the nearest package that has a folder of this name, from the module's own upwards, and the folder.

    `module` has the module's globals. Raises LookupError if no package has one.
    """
    package, folder = str(module["__package__"]), Path(module["__file__"]).parent
    while not (folder / name).is_dir():
        package, folder = package.rpartition(".")[0], folder.parent
        if not package:
            raise LookupError(f"no package of {module['__name__']} has a folder {name}/")
    return package, folder / name
