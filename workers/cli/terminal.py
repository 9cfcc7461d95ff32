"""Formats what commands print: tables, durations, and text from sites and servers."""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from rich.console import Console
from rich.table import Table

WIDTH_IN_FILES = 120
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def printable(text: str) -> str:
    """Return the text without control characters. Sites write parts of it, and could control the terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def span(seconds: float) -> str:
    """Return a duration in its two largest units: 0.4s, 12s, 3m 20s, 2h 05m, 4d 01h."""
    whole = round(seconds)
    if seconds < 10:  # noqa: PLR2004  below 10 s, tenths matter
        return f"{seconds:.1f}s" if seconds else "0s"
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m {whole % MINUTE:02}s"
    if whole < DAY:
        return f"{whole // HOUR}h {whole % HOUR // MINUTE:02}m"
    return f"{whole // DAY}d {whole % DAY // HOUR:02}h"


def table(*columns: str, numbers: Collection[str] = ()) -> Table:
    """Return an empty table. Its first column may fold; the columns that `numbers` names are aligned right."""
    empty = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for position, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        empty.add_column(name, justify=justify, overflow="fold", no_wrap=position > 0)
    return empty


def fields(lines: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each field: its name, and its value in a second column."""
    width = max(map(len, lines), default=0)
    yield from (f"  {name:<{width}}  {value}" for name, value in lines.items())


def rendered(filled: Table) -> str:
    """Return the table as text, as wide as the terminal, or WIDTH_IN_FILES if stdout is no terminal."""
    printer = console()
    with printer.capture() as capture:
        printer.print(filled)
    return capture.get()


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints all text literally: a host such as [::1] is not markup."""
    literal = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not literal.is_terminal:
        literal.width = WIDTH_IN_FILES
    return literal
