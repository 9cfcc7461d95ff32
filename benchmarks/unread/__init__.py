"""Counted notifications: what it costs to change, to flush, to read and to write many, against what others pay."""

from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.unread import add, flush, notify_many, read, stores


def measure(_folder: Path) -> list[Figure]:
    """Return the figures of all four; the last two share five million notifications."""
    stores.empty()
    figures = [*add.compare(), *flush.compare()]
    stores.fill()
    figures += [*read.compare(), *notify_many.compare()]
    stores.empty()
    return figures
