"""Reservations: what one costs, against the least that any limiter in PostgreSQL pays, and against other limiters."""

from pathlib import Path

from benchmarks.figures import Figure


def measure(_folder: Path) -> list[Figure]:
    """Return the figures of both; the second prints its tables, too."""
    # The processes that ask import this package before Django is set up.
    from benchmarks.reservations import bare_upsert, contest  # noqa: PLC0415

    return [*bare_upsert.compare(), *contest.compare()]
