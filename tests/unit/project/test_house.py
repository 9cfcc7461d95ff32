"""The house keeps its measures: small folders, small modules, short functions, one word for one thing."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import quantiles

import pytest

from project.checkout import CHECKOUT
from weir.workers import task_names

OURS = ("benchmarks", "demo", "notifications", "project", "ratelimit", "weir", "workers")
TEXTS = (*OURS, "docs", "tests")
MOST_MODULES = 15
MOST_LINES = 300
LONGEST_FUNCTION = 18  # lines, of nine functions in ten
# What a word was replaced by. The house has one word for one thing: docs/glossary.md.
REPLACED = {
    "lane": "site",
    "booked": "reserved",
    "under way": "in flight",
    "heal_": "reconcile_",
    "courier": "sender",
    "scrub": "full scan",
    "unseat": "requeue",
}
TASK_NAMES = {value for name, value in vars(task_names).items() if name.isupper() and isinstance(value, str)}


def modules(*suffixes: str) -> Iterator[Path]:
    """Yield the files of our code with these suffixes."""
    for package in OURS:
        for suffix in suffixes:
            yield from (CHECKOUT / package).rglob(f"*{suffix}")


def python() -> list[Path]:
    """Return our modules; migrations are Django's."""
    return [path for path in modules(".py") if "migrations" not in path.parts]


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Return all that our modules say, with where it stands."""
    return [(path, node) for path in python() for node in ast.walk(ast.parse(path.read_text()))]


@cache
def texts() -> list[tuple[Path, str]]:
    """Return what people read, in small letters."""
    return [
        (path, path.read_text().lower())
        for folder in TEXTS
        for path in sorted((CHECKOUT / folder).rglob("*"))
        if path.suffix in {".py", ".sql", ".lua", ".md", ".html", ".txt"} and path != Path(__file__)
    ]


def test_no_folder_is_crowded() -> None:
    """A reader takes its modules in at a glance. Statements are found by their names, which modules declare."""
    rooms = Counter(path.parent for path in modules(".py") if path.name != "__init__.py")
    rooms = Counter({room: number for room, number in rooms.items() if room.name != "migrations"})
    assert {str(room): number for room, number in rooms.items() if number > MOST_MODULES} == {}


def test_no_module_is_long() -> None:
    """A module has one subject."""
    lengths = {str(path): len(path.read_text().splitlines()) for path in python()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_functions_are_short() -> None:
    """Nine functions in ten fit into a glance, docstring included."""
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for _, node in nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert quantiles(lengths, n=10)[-1] <= LONGEST_FUNCTION


@pytest.mark.parametrize("word", REPLACED)
def test_a_word_that_was_replaced_does_not_come_back(word: str) -> None:
    """One thing has one name, in code, SQL, commands and docs."""
    found = [
        f"{path.relative_to(CHECKOUT)}:{number}"
        for path, text in texts()
        if word in text
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(rf"(?<![a-z]){word}", line)
    ]
    assert found == [], f"write {REPLACED[word]!r} instead of {word!r}"


def test_a_task_name_is_written_once() -> None:
    """Senders, the schedule and the tasks themselves name a task by its constant."""
    strings = [
        (str(path.relative_to(CHECKOUT)), node.value)
        for path, node in nodes()
        if isinstance(node, ast.Constant) and node.value in TASK_NAMES
    ]
    assert sorted(strings) == sorted(("workers/task_names.py", name) for name in TASK_NAMES)
