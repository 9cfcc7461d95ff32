"""The directive `make-targets`: the table that `make help` prints."""

import re
import shutil
import subprocess
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from . import tables

ROOT = Path(__file__).resolve().parents[2]


class MakeTargets(SphinxDirective):
    """Lists the targets of the Makefile with what they do."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(str(ROOT / "Makefile"))
        rows = [[tables.code(target), tables.prose(does)] for target, does in _targets()]
        return [tables.table(["Target", "Does"], rows)]


def _targets() -> list[tuple[str, str]]:
    make = shutil.which("make")
    if make is None:
        raise RuntimeError("The page of commands is made from `make help`: install make.")
    told = subprocess.run([make, "--silent", "help"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return re.findall(r"^(make \w+) +(.+)$", told.stdout, re.MULTILINE)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("make-targets", MakeTargets)
    return {"parallel_read_safe": True}
