"""The documentation as a site: `make docs`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from project.checkout import CHECKOUT

LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)"|url\(([^)]+)\)"""
)

# Its collections of garbage take a quarter of its time, and find next to nothing.
SPHINX = "import gc, runpy; gc.disable(); runpy.run_module('sphinx', run_name='__main__', alter_sys=True)"


def options() -> list[str]:
    """Return the options with which `make docs` calls Sphinx, without the folders."""
    recipe = re.search(
        r"-m sphinx (.*) -d build/doctrees docs build/docs$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE
    )
    assert recipe
    return shlex.split(recipe[1])


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Sphinx finds every page, link, name and generated table; no page asks another server for anything."""
    assert {"-W", "-n"} <= set(options())
    folders = ["-d", f"{tmp_path}/trees", str(CHECKOUT / "docs"), f"{tmp_path}/site"]
    sphinx = [sys.executable, "-c", SPHINX, *options(), *folders]
    built = subprocess.run(sphinx, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr

    loaded = {
        (str(path.relative_to(tmp_path)), "".join(found))
        for path in (tmp_path / "site").rglob("*")
        if path.suffix in {".html", ".css"}
        for found in LOADED.findall(path.read_text())
    }
    assert len(loaded) > 1
    assert [(page, what) for page, what in loaded if re.match(r"""["']?(?:https?:)?//""", what)] == []
