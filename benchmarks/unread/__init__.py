"""Counted notifications: adding a delta, flushing, reading a number and notifying many, each compared with peers."""

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
