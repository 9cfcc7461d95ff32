"""How long answers take, and what they ask of PostgreSQL."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from unittest import mock

from django.test import Client

from benchmarks.figures import Figure, print_table
from benchmarks.pages import plans, tables
from benchmarks.pages.size import Size
from benchmarks.pages.visits import Visit
from project.logins import links
from weir.ops import snapshots
from weir.ops.answers import LIVE
from weir.ops.metrics import scrape

TIMED_OUT = "PostgreSQL needs longer than"
HEADINGS = ("page", "cold ms", "worst", "p50", "p99", "live p50", "live p99", "statements", "reads whole")


class Wrong(Exception):
    """A page was refused, or a part of it was not read in time."""


def measure(visits: Iterable[Visit], folder: Path, size: Size) -> Iterator[Figure]:
    """Yield the figures of all pages, and print them as a table."""
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(links.operator())
    large = plans.large_tables()
    whole = folder / "whole.txt"
    whole.write_text("")
    rows = []
    for visit in visits:
        tables.go_on(size)
        figures = [*_cold(client, visit, size), *_warm(client, visit, size), *_asked(client, visit, folder, large)]
        yield from figures
        shown = {figure.name.rpartition(" ")[2]: f"{figure.value:,.4g}" for figure in figures}
        names = ("cold", "cold_worst", "p50", "p99", "live_p50", "live_p99", "statements", "reads_whole")
        rows.append([visit.name, *(shown.get(name, "") for name in names)])
    print_table("Pages", HEADINGS, rows)


def _cold(client: Client, visit: Visit, size: Size) -> list[Figure]:
    with no_snapshot():
        times_ms = [_takes_ms(lambda: _ask(client, visit)) for _ in range(size.cold)]
    return [_ms(visit, "cold", times_ms[0]), _ms(visit, "cold_worst", max(times_ms))]


def _warm(client: Client, visit: Visit, size: Size) -> list[Figure]:
    found = []
    for prefix, headers in (("", {}), ("live_", {LIVE: "1"})):
        if headers and not visit.is_live:
            break
        times_ms = [_takes_ms(lambda headers=headers: _ask(client, visit, headers)) for _ in range(size.requests)]  # type: ignore[misc]
        found += [
            _ms(visit, f"{prefix}p50", median(times_ms)),
            _ms(visit, f"{prefix}p99", _p99(times_ms)),
        ]
    return found


def _p99(times_ms: list[float]) -> float:
    return quantiles(times_ms, n=100, method="inclusive")[98] if len(times_ms) > 1 else times_ms[0]


def _asked(client: Client, visit: Visit, folder: Path, large: dict[str, int]) -> list[Figure]:
    """Return how many statements a cold answer executes; write how they are executed."""
    with no_snapshot(), plans.explained() as asked:
        _ask(client, visit, is_slow=True)
    name = visit.name.replace("/", "|")
    (folder / f"{name}.txt").write_text("\n\n".join(f"{one.text.strip()}\n\n{one.plan}" for one in asked) + "\n")
    found = [line for one in asked for line in one.reads_whole(large)]
    with (folder / "whole.txt").open("a") as whole:
        whole.writelines(f"{visit.name}: {line}\n" for line in found)
    return [
        Figure(name=f"{visit.name} statements", value=len(asked), unit="statements"),
        Figure(name=f"{visit.name} reads_whole", value=len(found), unit="scans"),
    ]


@contextmanager
def no_snapshot() -> Iterator[None]:
    """Keep no snapshots while the block lasts: each page and each scrape asks PostgreSQL."""
    with mock.patch.object(snapshots.Look, "is_fresh", False), mock.patch.object(scrape, "FRESH_S", -1e9):
        yield


def _ask(client: Client, visit: Visit, headers: dict[str, str] | None = None, *, is_slow: bool = False) -> None:
    """Ask for the page. Raises Wrong for a refusal."""
    response = client.get(visit.path, headers=headers or {})
    if response.status_code != 200:
        raise Wrong(f"{visit.path}: {response.status_code}")
    if not is_slow and TIMED_OUT in response.text:
        print(f"{visit.name}: a statement took longer than a page's may")


def _takes_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def _ms(visit: Visit, name: str, value: float) -> Figure:
    return Figure(name=f"{visit.name} {name}", value=value, unit="ms")
