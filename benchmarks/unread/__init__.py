"""Counted notifications: adding, flushing, reading, notifying many and marking all as read, each beside a peer."""

from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.unread import add, flush, mark_all, notify_many, read, stores


def measure(_folder: Path) -> list[Figure]:
    """Return the figures of all five; the last three share five million notifications."""
    stores.empty()
    figures = [*add.compare(), *flush.compare()]
    stores.fill()
    figures += [*read.compare(), *notify_many.compare(), *mark_all.compare()]
    stores.empty()
    return figures
