"""Seen, the result of a look at PostgreSQL's history."""

from datetime import datetime
from typing import NamedTuple


class Seen(NamedTuple):
    """The row, and what PostgreSQL says about itself.

    If this look let the generation grow, `numbered_at` is the time when it had grown before. `known` is the generation
    that this process knew when it asked: a generation that the process learns meanwhile belongs to a later row.
    """

    timeline: str
    cluster: str
    generation: int
    numbered_at: datetime
    is_synchronous: bool
    closed_because: str
    actual_timeline: str
    actual_cluster: str
    clock_s: float  # the time by PostgreSQL's clock, in seconds since 1970
    steps: int  # how many steps of PostgreSQL's clock were settled
    known: int  # the highest generation that a process has seen; 0 if none is known

    @property
    def is_copy(self) -> bool:
        """Whether the database is in another cluster than before, or was created anew."""
        return self.cluster != self.actual_cluster

    @property
    def is_known(self) -> bool:
        """Whether this is the known history, and the gate is open."""
        return (self.timeline, self.cluster) == (self.actual_timeline, self.actual_cluster) and (
            self.generation >= self.known and not self.closed_because
        )
