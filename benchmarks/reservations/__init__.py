"""Reservations: what one costs, compared with a bare upsert in PostgreSQL and with other limiters."""

from pathlib import Path

from benchmarks.figures import Figure


def measure(_folder: Path) -> list[Figure]:
    """Return the figures of both comparisons; the second also prints tables."""
    # Not at the top: the processes of the callers import this package before Django is set up.
    from benchmarks.reservations import bare_upsert, contest  # noqa: PLC0415

    return [*bare_upsert.compare(), *contest.compare()]
