"""Makes, of the names in `weir/__init__.py`, what type checkers and readers see of them.

`python -m docs.ext.public_names` writes `weir/__init__.pyi`; a test keeps it true. The directive `public-names` is the
table of the names.
"""

import inspect
import os
import re
from pathlib import Path

import django
from django.dispatch import Signal
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import weir

from . import tables

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "weir" / "__init__.pyi"
PAGE = ROOT / "docs" / "reference" / "python-api.md"
STUB_HEAD = "# The public names of Weir. Made by `python -m docs.ext.public_names`: change __init__.py.\n"


def stub() -> str:
    """Return what type checkers read: where each name is, and which names there are."""
    imports = "".join(f"from {module} import {_imported(there, name)}\n" for module, there, name in _places())
    lists = "".join(f"{name}: list[str]\n" for name in _lists())
    names = "".join(f'    "{name}",\n' for name in sorted([*weir.__all__, *_lists()]))
    return "\n".join([STUB_HEAD, imports, f"_PLACES: dict[str, str]\n{lists}", f"__all__ = [\n{names}]\n"])


class PublicNames(SphinxDirective):
    """Lists the public names, each with the first sentence of what it says of itself."""

    def run(self) -> list[nodes.Node]:
        """Return the table; a name leads to its description on the same page."""
        self.env.note_dependency(weir.__file__)
        rows = [[_link(name), tables.prose(meaning(getattr(weir, name)))] for name in weir.__all__]
        return [tables.table(["Name", "Meaning"], rows)]


def _link(name: str) -> list[nodes.Node]:
    place = "signals" if isinstance(getattr(weir, name), Signal) else f"weir.{name}"
    return [nodes.reference("", "", nodes.literal(name, name), internal=True, refid=place)]


def meaning(value: object) -> str:
    """Return the first sentence of the value's docstring; it is empty without one."""
    if isinstance(value, Signal):
        return "A signal."
    words = " ".join((inspect.getdoc(value) or "").split())
    return f"{first}." if (first := re.split(r"(?<=[.;:])\s", words)[0].rstrip(";:").removesuffix(".")) else ""


def _places() -> list[tuple[str, str, str]]:
    """Return (module, name there, public name), as imports are sorted."""
    places = ((name, *place.partition(":")) for name, place in weir._PLACES.items())
    return sorted((module, there or name, name) for name, module, _, there in places)


def _imported(there: str, name: str) -> str:
    return there if there == name else f"{there} as {name}"


def _lists() -> list[str]:
    """Return the names of the lists of apps, which are in `weir` itself."""
    return sorted(name for name in vars(weir) if name.startswith("APPS"))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True}


def main() -> None:
    """Write the stub."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    STUB.write_text(stub())


if __name__ == "__main__":
    main()
