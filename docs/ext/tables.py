"""What the extensions of this folder put on pages: tables, and prose with `names` in backticks."""

import re
from collections.abc import Iterable, Sequence

from docutils import nodes


def prose(text: str) -> list[nodes.Node]:
    """Return the text, with what stands in backticks as code."""
    parts = re.split(r"`([^`]+)`", text)
    shown = (nodes.literal(part, part) if place % 2 else nodes.Text(part) for place, part in enumerate(parts))
    return [node for node in shown if node.astext()]


def code(text: str) -> list[nodes.Node]:
    """Return the text as code."""
    return [nodes.literal(text, text)] if text else []


def code_block(text: str, language: str) -> nodes.literal_block:
    """Return the text as a block of code."""
    return nodes.literal_block(text, text, language=language)


def table(header: Sequence[str], rows: Iterable[Sequence[Sequence[nodes.Node]]]) -> nodes.table:
    """Return a table; each cell is a list of inline nodes."""
    body = nodes.tbody("", *(_row(cells) for cells in rows))
    head = nodes.thead("", _row([[nodes.Text(title)] for title in header]))
    columns = [nodes.colspec(colwidth=1) for _ in header]
    return nodes.table("", nodes.tgroup("", *columns, head, body, cols=len(header)))


def _row(cells: Iterable[Sequence[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))
