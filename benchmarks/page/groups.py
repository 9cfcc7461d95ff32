"""The tables of benchmarks without peers: growth against size, a far database, and what idle processes cost."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.page.numbers import Number, cell, written

_AT = re.compile(r"^growth_(?P<curve>.+)_at_(?P<size>\d+)$")
_OF_FETCHES: Final = {
    "tick": "A tick of dispatch that reserves nothing",
    "dispatch_1000": "Dispatch of 1,000 fetches",
    "claim_1000": "Claims of 1,000",
    "store_1000": "Storing the results of 1,000",
}


class Grown(NamedTuple):
    """What grows, and what is shown of its curves, by their names."""

    what: str
    curves: Mapping[str, str]


# By the name of the growth. Its other curves, such as each list and search of e-mails, are only printed.
GROWTH: Final = {
    "sites": Grown("Sites, each with something due", _OF_FETCHES),
    "queued": Grown("Queued fetches", _OF_FETCHES),
    "ended": Grown(
        "Ended fetches",
        {
            **_OF_FETCHES,
            "purge_1000": "A purge of 1,000",
            "list_at_site": "A list of those of one site",
            "list_failed": "A list of the failed",
        },
    ),
    "users": Grown(
        "Users, with ten notifications each",
        {
            "unread_count": "`unread_count`",
            "page": "A page of notifications",
            "notify_many_5000": "`notify_many` of 5,000 users",
            "flush_5000": "A flush of 5,000 users",
            "scan_1000": "A scan of 1,000 users",
        },
    ),
    "emails": Grown(
        "E-mails",
        {
            "send_once": "`send_once`",
            "claim_by_50": "A claim of 50",
            "list_sent": "A list of the sent",
            "states": "Counts by state",
            "kinds": "Counts by kind",
        },
    ),
}
_DISTANCES = (0, 5, 20, 50, 100)  # ms
_FAR = {"lateness_p50": "Lateness p50", "lateness_p99": "p99", "used_share": "Share of the rate"}
_LAYOUTS = {"procfile": "Procfile", "split": "Procfile.split"}
_IDLE = {
    "processor": "Processor, servers included",
    "memory": "Memory, servers included",
    "fetch_p50": "A fetch: from its commit to its request, p50",
    "fetch_p99": "p99",
    "notify_p50": "A notification: from its commit to the stored number, p50",
    "notify_p99": "p99",
    "send_once_p50": "An e-mail: from its commit to the end of its content at the mail server, p50",
    "send_once_p99": "p99",
}


def growth(figures: Mapping[str, Number]) -> str:
    """Return a table for each thing that grows: the points of its curves, and exponents; nothing without a curve."""
    points: dict[str, dict[int, Number]] = {}
    for figure, number in figures.items():
        if at := _AT.match(figure):
            points.setdefault(at["curve"], {})[int(at["size"])] = number
    tables = ("\n".join(_grown(name, grown, points, figures)) for name, grown in GROWTH.items())
    return "\n\n".join(table for table in tables if table)


def _grown(
    name: str, grown: Grown, points: Mapping[str, Mapping[int, Number]], figures: Mapping[str, Number]
) -> Iterator[str]:
    """Yield the sizes, and a row for each curve that was measured; nothing if none was."""
    curves = {curve: shown for of, shown in grown.curves.items() if (curve := f"{name}_{of}") in points}
    sizes = sorted({size for curve in curves for size in points[curve]})
    if curves:
        yield f"| {grown.what} | {' | '.join(f'{size:,}' for size in sizes)} | Exponent | Last step |"
        yield "|---" * (3 + len(sizes)) + "|"
    for curve, shown in curves.items():
        costs = " | ".join(_point(points[curve].get(size)) for size in sizes)
        exponent, last = (figures.get(f"growth_{curve}_{kind}") for kind in ("exponent", "exponent_of_last_step"))
        yield f"| {shown} | {costs} | {_exponent(exponent)} | {_exponent(last)} |"


def _point(number: Number | None) -> str:
    """Return the number without its unit: all are milliseconds, as the page says above the tables."""
    return "" if number is None else written(number.value)


def _exponent(number: Number | None) -> str:
    return "not fitted" if number is None else f"{number.value:z.2f}"


def far(figures: Mapping[str, Number]) -> str:
    """Return how late starts are, and what share of the rate is used, by the distance; nothing if not measured."""
    named = {distance: [f"far_database_{distance}_ms_jitter_0_ms_{of}" for of in _FAR] for distance in _DISTANCES}
    rows = [
        f"| {distance} ms | {' | '.join(cell(figures[name]) if name in figures else '' for name in names)} |"
        for distance, names in named.items()
        if any(name in figures for name in names)
    ]
    header = [f"| PostgreSQL is away | {' | '.join(_FAR.values())} |", "|---" * (1 + len(_FAR)) + "|"]
    return "\n".join([*header, *rows]) if rows else ""


def idle(figures: Mapping[str, Number]) -> str:
    """Return what each layout costs, and how soon it begins; nothing if it was not measured."""
    rows = [
        f"| {what} | " + " | ".join(_idle_cell(figures.get(f"idle_{layout}_{name}")) for layout in _LAYOUTS) + " |"
        for name, what in _IDLE.items()
        if any(f"idle_{layout}_{name}" in figures for layout in _LAYOUTS)
    ]
    header = [f"| | {' | '.join(_LAYOUTS.values())} |", "|---|---|---|"]
    return "\n".join([*header, *rows]) if rows else ""


def _idle_cell(number: Number | None) -> str:
    return "" if number is None else cell(number)
