"""Whether the database has what this version's migrations make."""

from dataclasses import dataclass

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@dataclass(slots=True)
class _Known:
    is_complete: bool = False


_known = _Known()


def missing() -> int:
    """Return how many migrations are not applied. Once all are, this process does not ask again."""
    if _known.is_complete:
        return 0
    executor = MigrationExecutor(connection)
    found = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    _known.is_complete = not found
    return found
