"""Deletes many rows in short transactions, so that no lock is held for long and a kill costs one batch at most."""

from collections.abc import Mapping
from typing import NamedTuple

from postgres import statements


class DeletedBatch(NamedTuple):
    """How many rows were deleted."""

    deleted: int


def delete(package: str, name: str, parameters: Mapping[str, object], *, batch: int) -> int:
    """Execute a statement that deletes up to `batch` rows, until one execution deletes fewer; returns how many in all.

    The statement gets `batch` among its parameters, and returns one DeletedBatch. Each execution commits by itself.
    Raises what `statements.run` raises; what was deleted until then stays deleted.
    """
    deleted = 0
    while True:
        [last] = statements.run(package, name, {**parameters, "batch": batch}, row=DeletedBatch)
        deleted += last.deleted
        if last.deleted < batch:
            return deleted
