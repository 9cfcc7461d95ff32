"""What a look at PostgreSQL's history shows."""

from datetime import datetime
from typing import NamedTuple


class Seen(NamedTuple):
    """The row, and what PostgreSQL says about itself. `numbered_at` is older than a generation that has just grown.

    `known` is what this process knew when it asked. What it learns from others meanwhile belongs to a later row.
    """

    timeline: str
    cluster: str
    generation: int
    numbered_at: datetime
    is_synchronous: bool
    closed_because: str
    actual_timeline: str
    actual_cluster: str
    clock_s: float  # PostgreSQL's, since 1970
    steps: int  # of that clock, that were settled
    known: int  # the highest generation that a process has seen: 0 if none is known

    @property
    def is_copy(self) -> bool:
        """Whether the database is in another cluster than before, or was created anew."""
        return self.cluster != self.actual_cluster

    @property
    def is_known(self) -> bool:
        """Whether this is the history that is known."""
        return (self.timeline, self.cluster) == (self.actual_timeline, self.actual_cluster) and (
            self.generation >= self.known and not self.closed_because
        )
