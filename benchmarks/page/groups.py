"""The tables of two benchmarks without peers: growth against size, and what idle processes cost."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.page.numbers import Number, cell

_AT = re.compile(r"^growth_(?P<curve>.+)_at_(?P<size>\d+)$")
_OF_FETCHES: Final = {
    "tick": "A tick of dispatch that finds nothing to reserve",
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
            "begin": "Noting that one is being sent",
            "record": "Recording what became of it",
            "list_sent": "A list of the sent",
            "states": "Counts by state",
            "kinds": "Counts by kind",
        },
    ),
}
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
    """Return a table of the curves: their points, and their exponents; nothing without a curve."""
    points: dict[str, dict[int, Number]] = {}
    for figure, number in figures.items():
        if at := _AT.match(figure):
            points.setdefault(at["curve"], {})[int(at["size"])] = number
    rows = [row for name, grown in GROWTH.items() for row in _grown(name, grown, points, figures)]
    header = ["| Grows | What | At the sizes | Exponent | Of the last step |", "|---|---|---|---|---|"]
    return "\n".join([*header, *rows]) if rows else ""


def _grown(
    name: str, grown: Grown, points: Mapping[str, Mapping[int, Number]], figures: Mapping[str, Number]
) -> Iterator[str]:
    """Yield a row for each curve that was measured; the first says what grows."""
    what = grown.what
    for of, shown in grown.curves.items():
        if (curve := f"{name}_{of}") in points:
            costs = "; ".join(f"{size:,}: {cell(number)}" for size, number in sorted(points[curve].items()))
            exponent, last = (figures.get(f"growth_{curve}_{kind}") for kind in ("exponent", "exponent_of_last_step"))
            yield f"| {what} | {shown} | {costs} | {_exponent(exponent)} | {_exponent(last)} |"
            what = ""


def _exponent(number: Number | None) -> str:
    return "not fitted" if number is None else f"{number.value:z.2f}"


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
