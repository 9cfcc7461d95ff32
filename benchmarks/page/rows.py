"""What the figures of both turns say, job by job: for the table and the picture."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.page.numbers import written


class Said(NamedTuple):
    """What went wrong, of how much, and who did it."""

    by: str
    bad: int
    of: int
    what: str  # what follows the two numbers, such as "requests came early"
    beside: str = ""  # what else there is to say

    def __str__(self) -> str:
        return f"{written(self.bad)} of {written(self.of)} {self.what}{f'; {self.beside}' if self.beside else ''}"


class Row(NamedTuple):
    """A job, what is asked of it, and what became of it without Weir and with Weir."""

    job: str
    asked: str
    without: Sequence[Said]
    weir: Said


EARLY, WRONG, TWICE = "requests came early", "unread numbers wrong", "e-mails came twice"
ASKED: Final = {
    "Paced": "No two requests to a site closer together than its interval",
    "Counted": "Each unread number equals COUNT(*)",
    "Once": "No e-mail twice",
}
PACERS: Final = {"rate_limit": "Celery's rate_limit, two workers", "lock": "A Redis lock that expires (SET NX PX)"}
MAILERS: Final = {"loop": "Lock the row, send, flag it, commit", "task": "A Celery task with acks_late"}
COUNTER: Final = "A counter in Redis, flushed to the row"


def of(figures: Mapping[str, float]) -> list[Row]:
    """Return a row for each job. KeyError without one of the figures."""
    number = {name.removeprefix("picture_"): round(value) for name, value in figures.items()}
    paced = {by: Said(who, number[f"{by}_early"], number[f"{by}_requests"], EARLY) for by, who in PACERS.items()}
    once = {by: _mailed(number, by, who) for by, who in MAILERS.items()}
    counted = Said(COUNTER, number["peers_wrong"], number["peers_numbers"], WRONG)
    return [
        Row("Paced", ASKED["Paced"], list(paced.values()), _weir(number, "early", "requests", EARLY)),
        Row("Counted", ASKED["Counted"], [counted], _weir(number, "wrong", "numbers", WRONG)),
        Row("Once", ASKED["Once"], list(once.values()), _mailed(number, "weir", "Weir")),
    ]


def text(rows: Sequence[Row]) -> str:
    """Return everything in one paragraph, for those who do not see the picture."""
    return " ".join(" ".join(_sentences(row)) for row in rows)


def _sentences(row: Row) -> Iterator[str]:
    yield f"{row.job}:"
    for said in (*row.without, row.weir):
        yield f"{said.by}: {said}."


def _weir(number: Mapping[str, int], bad: str, all_: str, what: str) -> Said:
    return Said("Weir", number[f"weir_{bad}"], number[f"weir_{all_}"], what)


def _mailed(number: Mapping[str, int], by: str, who: str) -> Said:
    """Return what became of the e-mails; nobody is told of one that never came, unless it is `unknown`."""
    never = number[f"{by}_never"] - number.get(f"{by}_unknown_never", 0)
    beside = [f"{written(never)} never came"] if never else []
    if unknown := number.get(f"{by}_unknown", 0):
        beside.append(f"{written(unknown)} unknown: an operator decides")
    return Said(who, number[f"{by}_twice"], number[f"{by}_emails"], TWICE, ", ".join(beside))
