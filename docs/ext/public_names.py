"""Makes, of the names in `weir/__init__.py`, what type checkers and readers see of them.

`python -m docs.ext.public_names` writes `weir/__init__.pyi` and the table in docs/reference/python-api.md; a test keeps
them true.
"""

import inspect
import os
import re
from pathlib import Path

import django
from django.dispatch import Signal

import weir

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "weir" / "__init__.pyi"
PAGE = ROOT / "docs" / "reference" / "python-api.md"
BEGIN = "<!-- From here on made by `python -m docs.ext.public_names`. -->"
END = "<!-- Made until here. -->"
STUB_HEAD = "# The public names of Weir. Made by `python -m docs.ext.public_names`: change __init__.py.\n"


def stub() -> str:
    """Return what type checkers read: where each name is, and which names there are."""
    imports = "".join(f"from {module} import {_imported(there, name)}\n" for module, there, name in _places())
    lists = "".join(f"{name}: list[str]\n" for name in _lists())
    names = "".join(f'    "{name}",\n' for name in sorted([*weir.__all__, *_lists()]))
    return "\n".join([STUB_HEAD, imports, f"_PLACES: dict[str, str]\n{lists}", f"__all__ = [\n{names}]\n"])


def page(text: str) -> str:
    """Return the page with its table made anew; what stands before and after it is kept."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def table() -> str:
    """Return a row for each name: the first sentence of what it says of itself."""
    head = "| Name | Meaning |\n|---|---|\n"
    return "".join([head, *(f"| `{name}` | {_meaning(getattr(weir, name))} |\n" for name in weir.__all__)])


def _meaning(value: object) -> str:
    if isinstance(value, Signal):
        return "A [signal](#signals)."
    words = " ".join((inspect.getdoc(value) or "").split())
    return re.split(r"(?<=[.;:])\s", words)[0].rstrip(";:").removesuffix(".") + "."


def _places() -> list[tuple[str, str, str]]:
    """Return (module, name there, public name), as imports are sorted."""
    places = ((name, *place.partition(":")) for name, place in weir._PLACES.items())
    return sorted((module, there or name, name) for name, module, _, there in places)


def _imported(there: str, name: str) -> str:
    return there if there == name else f"{there} as {name}"


def _lists() -> list[str]:
    """Return the names of the lists of apps, which are in `weir` itself."""
    return sorted(name for name in vars(weir) if name.startswith("APPS"))


def main() -> None:
    """Write both files."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    STUB.write_text(stub())
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
