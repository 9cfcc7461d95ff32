"""README and docs/ speak of things that exist: commands, modules, functions, variables, files."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands

from project.checkout import CHECKOUT
from project.processes.procfile import lines
from tests.cases import for_each
from tests.command_lines import check_line, make_targets
from tests.unit.project.test_deployment_files import variables_listed
from weir.conf.declared import OnlySettings
from weir.workers.processes.kinds import BEAT

PAGES = {
    str(path.relative_to(CHECKOUT)): path
    for path in [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
}
LANGUAGES = {"sh", "console", "python", "html", "sql", "ini", "nginx", "text", "yaml"}
READERS_APP = "shop"  # what readers of the pages write: tests/acceptance/docs imports it
# Sphinx fills them.
MADE = {"{command}", "{make-targets}", "{model}", "{public-names}", "{api-scopes}", "{api-problems}"}
DIRECTIVES = {"{toctree}", "{eval-rst}", *MADE}


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of the page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page].read_text(), re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(path: Path) -> set[str]:
    """Return the names under which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_code_blocks_name_their_language() -> None:
    """Each code block says what it is, so that none escapes the tests below."""
    for page, path in PAGES.items():
        fences = re.findall(r"^```(.*)$", path.read_text(), re.MULTILINE)
        assert {fence.split(" ")[0] for fence in fences[0::2]} <= LANGUAGES | DIRECTIVES, page
        assert set(fences[1::2]) <= {""}, page


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")])
def test_shell_commands_exist(page: str) -> None:
    """Each line of a shell block would start: targets, programs, commands and their options exist."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            check_line(line)


@for_each("page", [page for page in PAGES if blocks(page, "python")])
def test_python_blocks_compile_and_import_what_exists(page: str) -> None:
    """Each Python block compiles, and each name that it imports is there."""
    for block in blocks(page, "python"):
        tree = ast.parse(block)
        compile(tree, page, "exec")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    importlib.import_module(alias.name)
            elif isinstance(node, ast.ImportFrom) and not _is_the_readers(node):
                module = importlib.import_module(node.module or "")
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert [name for name in missing if not _is_module(f"{node.module}.{name}")] == []


def test_links_lead_somewhere() -> None:
    """Each relative link names a file that exists, and a heading in it where it names one."""
    broken = []
    for page, path in PAGES.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
            if not link.startswith(("https://", "http://")):
                name, _, anchor = link.partition("#")
                target = (path.parent / name).resolve() if name else path
                if not target.exists() or (anchor and anchor not in anchors(target)):
                    broken.append(f"{page}: {link}")

    assert broken == []


def test_pages_name_commands_that_exist() -> None:
    """What a page calls `manage.py X` or `make X`, outside code blocks too, is a command or a target."""
    commands, targets = set(get_commands()), set(make_targets())
    for page, path in PAGES.items():
        text = prose(path)
        assert set(re.findall(r"manage\.py ([a-z_]+)", text)) <= commands, page
        assert set(re.findall(r"`make ([a-z]+)", text)) <= targets, page


def test_readme_shows_the_two_commands_first() -> None:
    """The first shell block of the README is the two-command start."""
    assert blocks("README.md", "sh")[0].splitlines() == ["make demo", "make test"]


def test_settings_reference_is_complete() -> None:
    """The reference explains every setting, and the default of each variable as .env.example has it."""
    page = (CHECKOUT / "docs" / "reference" / "settings.md").read_text()
    ours, _, _ = page.partition("## Read by the Procfile")
    rows = dict(re.findall(r"^\| `([A-Z0-9_]+)` \| ([^|]+) \|", ours, re.MULTILINE))

    assert set(rows) == {*variables_listed(), *OnlySettings.model_fields}
    for name, described in rows.items():
        if name in variables_listed() and (stated := re.match(r"`([^`]+)`", described)):
            assert stated[1] in {variables_listed()[name], "REDIS_URL"}, name


def test_settings_reference_names_what_the_procfile_reads() -> None:
    """With the defaults of all its processes; beat itself reads its name."""
    read: dict[str, list[str]] = {"HONCHO_PROCESS_NAME": []}
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", " ".join(lines().values())):
        read.setdefault(name, []).append(default)
    read["HONCHO_PROCESS_NAME"].append(BEAT)
    _, _, theirs = PAGES["docs/reference/settings.md"].read_text().partition("## Read by the Procfile")
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", theirs, re.MULTILINE)
    assert {name: re.findall(r"`(.*?)`", defaults) for name, defaults in rows} == read


def _is_the_readers(node: ast.ImportFrom) -> bool:
    return node.level > 0 or (node.module or "").partition(".")[0] == READERS_APP


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
