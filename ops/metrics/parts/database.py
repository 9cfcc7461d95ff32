"""PostgreSQL's sessions."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from ops.metrics.families import gauge
from postgres import statements

_query = partial(statements.run_within, "ops.metrics")


class Sessions(NamedTuple):
    """How many sessions there are, and how old the oldest snapshot is."""

    oldest_snapshot_s: float
    sessions: int
    most_sessions: int


def families() -> Iterator[Metric]:
    """Yield what slows PostgreSQL down, or shuts others out."""
    [seen] = _query("database", {}, row=Sessions)
    meaning = "Age of the oldest snapshot of another session: dead rows pile up behind it."
    yield gauge("weir_database_oldest_snapshot_seconds", meaning, seen.oldest_snapshot_s)
    yield gauge("weir_database_connections", "Sessions of all clients of the server.", seen.sessions)
    yield gauge("weir_database_connections_max", "How many sessions Weir's role may bring it to.", seen.most_sessions)
