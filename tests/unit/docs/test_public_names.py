"""`weir` hands on the public names: what they are is written once, and all else is made from it."""

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import weir
from docs.ext import public_names
from project.checkout import CHECKOUT

REMEDY = "run `python -m docs.ext.public_names` and commit what it wrote"
PAGE = public_names.PAGE.read_text()
# Before Django is set up, and without any setting.
CHEAP = """
import sys, weir
assert "request_fetch" in dir(weir)
from weir import postgresql_went_back
loaded = [name for name in sys.modules if name.partition(".")[0] in {"celery", "psycopg", "redis", "pydantic"}]
print(loaded, sorted(name for name in sys.modules if name.startswith("weir.")))
"""


def test_the_public_names_are_there() -> None:
    """Where the table says, and once they were looked up, the module has them."""
    for name in weir.__all__:
        value = getattr(weir, name)
        module, _, there = weir._PLACES[name].partition(":")
        assert value is getattr(import_module(module), there or name), name
        assert vars(weir)[name] is value, name


def test_another_name_is_not_there() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="module 'weir' has no attribute 'cancel'"):
        _ = weir.cancel  # type: ignore[attr-defined]


def test_importing_weir_reads_nothing_and_needs_no_settings() -> None:
    """A host's settings, celery.py and manage.py import it, before anything is set up. The lists of apps are texts."""
    command = [sys.executable, "-S", "-c", "import weir, sys; print([m for m in sys.modules if m.startswith('weir.')])"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['weir.apps_lists']\n", "")
    done = subprocess.run([sys.executable, "-c", CHEAP], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[] ")


def test_a_checkout_without_links_says_so(tmp_path: Path) -> None:
    """Where git may make no links, each is a file that holds its target's path."""
    folder = tmp_path / "weir"
    folder.mkdir()
    (folder / "__init__.py").write_text((CHECKOUT / "weir" / "__init__.py").read_text())
    (folder / "workers").write_text("../workers")
    command = [sys.executable, "-c", "import weir.workers"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ImportError: This checkout of Weir has small files where links belong" in done.stderr
    assert "git config core.symlinks true" in done.stderr


def test_what_type_checkers_read_is_what_the_names_make() -> None:
    """The stub is not edited by hand, nor forgotten."""
    assert public_names.STUB.read_text() == public_names.stub(), f"__init__.pyi is out of date: {REMEDY}"


def test_each_public_name_says_what_it_is() -> None:
    """A name without a sentence would be a row without a meaning in the page's table."""
    assert [name for name in weir.__all__ if not public_names.meaning(getattr(weir, name))] == []
    assert "```{public-names}" in PAGE


def test_the_page_describes_each_public_name_once_and_no_other() -> None:
    """Signals are described in words, all else by its docstring."""
    described = re.findall(r"^\.\. auto\w+:: weir\.(\w+)$", PAGE, re.MULTILINE)
    signals = re.findall(r"^- `(\w+)`", PAGE.partition("## Signals")[2], re.MULTILINE)
    assert sorted([*described, *signals]) == sorted(weir.__all__)


def test_what_settings_urls_and_tests_name_is_there() -> None:
    """Nobody imports these names here: they would be lost unseen."""
    chapter = PAGE.partition("## Named in settings")[2].partition("\n## ")[0]
    names = re.findall(r"`(weir\.[\w.]+)`", chapter)
    assert {"weir.APPS", "weir.celery.integrate", "weir.ops.urls", "weir.testing.Runner"} <= set(names)
    assert set(names) >= {f"weir.{name}" for name in vars(weir) if name.startswith("APPS")}
    for name in names:
        pkgutil.resolve_name(name)


def test_no_module_of_weir_uses_the_public_names() -> None:
    """They lead to all rooms: a room that imported them would be in a circle."""
    rooms = ("notifications", "ratelimit", "weir", "workers")
    files = (path for room in rooms for path in (CHECKOUT / room).rglob("*.py") if "orders" not in path.parts)
    found = [
        str(path) for path in files if re.search(r"^ *(import weir|from weir import)$", path.read_text(), re.MULTILINE)
    ]
    assert found == []


def test_pages_and_examples_import_public_names_only() -> None:
    """What a reader copies from there does not move."""
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "examples").rglob("*.py")]
    lines = [
        line for page in pages for line in re.findall(r"^(?:from|import) (weir\b.*)$", page.read_text(), re.MULTILINE)
    ]
    public = re.compile(r"weir$|weir(\.celery|\.conf|\.testing|\.mail_backend|\.workers\.orders[\w.]*)? import ")
    assert len(lines) > 30
    assert [line for line in lines if not public.match(line)] == []
