"""The clock of those who hold slots, and who reads it."""

import ast
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cases import for_each
from weir.ratelimit import clock

CHECKOUT = Path(clock.__file__).parents[1]
ROOMS = ("demo", "notifications", "project", "ratelimit", "weir", "workers")
DURATIONS = {"sleep", "thread_time", "process_time"}  # of the module `time`: how long, and not when
# What reads another clock in a module that reads this one: functions, with what they need it for.
OTHERWISE: Final = {
    "ratelimit/held/keeper.py": {
        "_work": "since when its thread has nothing to do",
        "_is_over": "the same",
        "_pause": "until the next turn",
    },
    "workers/fetches/fetcher/fetcher.py": {
        "close": "how long the parts may take to end",
        "_note_turn": "when the loop turned last",
        "_answered": "a time of day that a site has named",
    },
    "workers/fetches/fetcher/results/writer.py": {
        "_work": "how long it took to store",
        "_store_suspects": "until when it goes on with them",
        "_judge_what_came": "the same, with what comes",
        "_judge_costly": "the same, with costly answers",
        "_judge_first": "since when a site is costly",
    },
    "workers/fetches/fetcher/results/fetch_spans.py": {"record": "spans have times of day"},
}


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="elsewhere the monotonic clock goes on")
def test_it_goes_on_while_the_host_is_suspended() -> None:
    """Linux has another clock for that: tests/integration/ratelimit/test_suspended.py runs where the two differ."""
    assert clock.now() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1.0)


def test_who_holds_slots_reads_no_other_clock() -> None:
    """Two clocks in one comparison would agree in all tests, and differ by hours on a host that was suspended.

    Whoever holds slots reads this clock: those modules are found by their imports.
    """
    holders = {
        path.relative_to(CHECKOUT).as_posix(): tree
        for room in ROOMS
        for path in (CHECKOUT / room).rglob("*.py")
        if "clock" in (text := path.read_text()) and imports_clock(tree := ast.parse(text))
    }
    found = {module: set(others) for module, tree in holders.items() if (others := list(reads_another(tree)))}
    assert found == {module: set(functions) for module, functions in OTHERWISE.items()}
    assert {"ratelimit/slots.py", "workers/fetches/fetcher/http/attempt.py"} <= set(holders)


@for_each(
    ("text", "found"),
    [
        ("import time\nfrom weir.ratelimit import clock\ndef f():\n    time.sleep(1)", []),
        ("import time\nfrom weir.ratelimit import clock, slots\ndef f():\n    return time.monotonic()", ["f"]),
        ("import time as t\nimport weir.ratelimit.clock\nclass A:\n    async def f(self):\n        t.time()", ["f"]),
        ("from time import perf_counter\nfrom weir.ratelimit.clock import now\n", [""]),
        ("import time\nfrom weir.ratelimit import clock\nSINCE = time.monotonic", [""]),
    ],
)
def test_however_it_is_read(text: str, found: list[str]) -> None:
    """By another name, in a method, or where the module begins."""
    tree = ast.parse(text)
    assert imports_clock(tree)
    assert list(reads_another(tree)) == found


def imports_clock(tree: ast.Module) -> bool:
    """Tell whether a module imports the clock, or a part of it."""
    return any(
        name == "weir.ratelimit.clock" or name.startswith("weir.ratelimit.clock.")
        for node in ast.walk(tree)
        for name in imported(node)
    )


def imported(node: ast.AST) -> list[str]:
    """Return the full names of what an import brings; none where it is something else."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def reads_another(node: ast.AST, function: str = "", names: frozenset[str] = frozenset()) -> Iterator[str]:
    """Return the name of the function around each place that speaks of another clock; "" is outside of all."""
    if isinstance(node, ast.Module):
        imports = [one for one in ast.walk(node) if isinstance(one, ast.Import)]
        names = frozenset(alias.asname or "time" for one in imports for alias in one.names if alias.name == "time")
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        function = node.name
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
        if node.attr not in DURATIONS:
            yield function
    elif any(name.startswith("time.") and name[5:] not in DURATIONS for name in imported(node)):
        yield function
    for child in ast.iter_child_nodes(node):
        yield from reads_another(child, function, names)
