"""What N hosts and one PostgreSQL carry: what was measured, and what follows by arithmetic."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.page.numbers import Number, cell, written

_PARTS: Final = {"commits": "Commits", "wal": "Write-ahead log", "postgresql": "PostgreSQL's processor"}
_OF: Final = ("a_fetch", "a_fetcher", "of_others")
_SIMULATED: Final = {
    "asked_in_time": "Queries answered in time",
    "latency": "Their latency, mean",
    "fetches": "Fetches claimed and stored",
    "tick_p50": "A tick of dispatch, p50",
    "tick_longest": "The longest",
    "postgresql": "PostgreSQL's processor",
    "machine": "All processors of the machine",
    "commits": "Commits",
}
IN_TIME: Final = 99.0  # per cent of the queries, and
ENOUGH: Final = 0.95  # of the demand: with less, a bottleneck is reached
_FETCHERS = re.compile(r"^capacity_(\d+)_fetchers_")
RESERVED: Final = 3  # of PostgreSQL's connections, for superusers (superuser_reserved_connections)
FETCHERS: Final = (2, 10, 50, 200, 1_000)
RATES: Final = (1_000, 5_000)  # fetches a second, of all fetchers together


class Needed(NamedTuple):
    """What this many fetchers, with this many fetches a second, need of one PostgreSQL, by arithmetic."""

    connections: float
    cores: float
    commits: float  # a second


def needed(figures: Mapping[str, Number], fetchers: int, per_s: int) -> Needed:
    """Multiply the parts. KeyError if one was not measured."""

    def total(name: str, once: float = 1, a_second: float = 1) -> float:
        a_fetch, a_fetcher, others = (figures[f"capacity_{name}_{of}"].value for of in _OF)
        return max(0.0, others * a_second) + max(0.0, a_fetcher * a_second) * fetchers + a_fetch * once * per_s

    others, a_fetcher = (figures[f"capacity_sessions_{of}"].value for of in ("of_others", "a_fetcher"))
    return Needed(
        connections=others + a_fetcher * fetchers,
        cores=total("postgresql", once=1e-3, a_second=1e-2),  # ms, and per cent
        commits=total("commits"),
    )


def measured(figures: Mapping[str, Number]) -> str:
    """Return the parts that a running Weir was measured to take, and what was simulated; nothing without either."""
    texts = ("\n".join(lines) for lines in (_parts(figures), _simulated(figures), _bottleneck(figures)))
    return "\n\n".join(text for text in texts if text)


def _parts(figures: Mapping[str, Number]) -> Iterator[str]:
    if "capacity_commits_a_fetch" not in figures:
        return
    yield "| Of PostgreSQL | A fetch | A fetcher, by being there | A worker of ticks and beat |"
    yield "|---|---|---|---|"
    for name, what in _PARTS.items():
        yield f"| {what} | {' | '.join(_cell(figures, f'capacity_{name}_{of}') for of in _OF)} |"
    sessions = [_cell(figures, f"capacity_sessions_{of}") for of in _OF[1:]]
    yield f"| Connections | | {' | '.join(sessions)} |"


def _simulated(figures: Mapping[str, Number]) -> Iterator[str]:
    numbers = _numbers(figures)
    if not numbers:
        return
    yield f"| Simulated, {_cell(figures, 'capacity_demand')} | {' | '.join(f'{n:,} fetchers' for n in numbers)} |"
    yield "|---" * (1 + len(numbers)) + "|"
    for name, what in _SIMULATED.items():
        yield f"| {what} | {' | '.join(_cell(figures, f'capacity_{n}_fetchers_{name}') for n in numbers)} |"


def _numbers(figures: Mapping[str, Number]) -> list[int]:
    return sorted({int(match[1]) for name in figures if (match := _FETCHERS.match(name))})


def _bottleneck(figures: Mapping[str, Number]) -> Iterator[str]:
    """Yield a sentence about the smallest number of fetchers with which something was late, or that there was none."""
    numbers = [number for number in _numbers(figures) if f"capacity_{number}_fetchers_fetches" in figures]
    late = [number for number in numbers if _is_late(figures, f"capacity_{number}_fetchers")]
    if late:
        yield f"The simulation reached its bottleneck with {late[0]:,} fetchers."
    elif numbers:
        yield f"The simulation reached no bottleneck with {numbers[-1]:,} fetchers."


def _is_late(figures: Mapping[str, Number], prefix: str) -> bool:
    asked, fetches = figures[f"{prefix}_asked_in_time"].value, figures[f"{prefix}_fetches"].value
    return asked < IN_TIME or fetches < ENOUGH * figures["capacity_demand"].value


def _cell(figures: Mapping[str, Number], name: str) -> str:
    return cell(figures[name]) if name in figures else ""


def reckoned(figures: Mapping[str, Number]) -> str:
    """Return what limits fetchers, the first limit first, and what they need; nothing if a part is missing."""
    try:
        return "\n".join([*_limits(figures), "", *_needs(figures)])
    except KeyError:
        return ""


def _limits(figures: Mapping[str, Number]) -> Iterator[str]:
    """Yield the number of fetchers that each resource allows, the smallest first; and what limits fetches."""
    found = [_by_connections(figures)]
    if (a_fetcher := figures["capacity_postgresql_a_fetcher"].value / 1e2) > 0:
        most = 1 / a_fetcher
        text = f"what fetchers ask by being there takes a whole core at {written(most)} of them, before any fetches."
        found.append((most, f"**PostgreSQL's processor**: {text}"))
    for number, (_, text) in enumerate(sorted(found), 1):
        yield f"{number}. {text}"
    most = 1e3 / figures["capacity_postgresql_a_fetch"].value
    text = f"a core of PostgreSQL stores {written(most)}/s, however many fetchers share them."
    yield f"{len(found) + 1}. **Fetches**: {text}"


def _by_connections(figures: Mapping[str, Number]) -> tuple[float, str]:
    names = ("at_most", "of_others", "a_fetcher")
    at_most, others, a_fetcher = (figures[f"capacity_sessions_{of}"].value for of in names)
    most = (at_most - RESERVED - others) / a_fetcher
    return most, (
        f"**Connections**: the {written(at_most)} of the measured server (`max_connections`), less {RESERVED} for"
        f" superusers and those of the others, are those of {int(most)} fetchers. More need a higher setting, or"
        " [a pooler](how-to/use-a-pooler.md)."
    )


def _needs(figures: Mapping[str, Number]) -> Iterator[str]:
    of_rates = [f"{what} at {per_s:,}" for what in ("Cores", "Commits/s") for per_s in RATES]
    yield f"| Fetchers | Connections | {' | '.join(of_rates)} |"
    yield "|---" * (2 + len(of_rates)) + "|"
    for fetchers in FETCHERS:
        each = [needed(figures, fetchers, per_s) for per_s in RATES]
        values = [each[0].connections, *(one.cores for one in each), *(one.commits for one in each)]
        yield f"| {fetchers:,} | {' | '.join(written(value) for value in values)} |"
