"""Deletes many rows in short transactions, so that no lock is held for long and a kill costs one batch at most."""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

from weir.postgres import statements


class DeletedBatch(NamedTuple):
    """How many rows were deleted."""

    deleted: int


def delete(package: str, name: str, parameters: Mapping[str, object], *, batch: int, within_s: float = math.inf) -> int:
    """Execute a statement that deletes up to `batch` rows, until one execution deletes fewer; returns how many in all.

    The statement gets `batch` among its parameters, and returns one DeletedBatch. Each execution commits by itself.
    After `within_s` seconds no other begins: what is left is for the next call. Raises what `statements.run` raises;
    what was deleted until then stays deleted.
    """
    deleted, last = 0, batch
    give_up_at = time.monotonic() + within_s
    while last == batch:
        [(last,)] = statements.run(package, name, {**parameters, "batch": batch}, row=DeletedBatch)
        deleted += last
        if time.monotonic() >= give_up_at:
            break
    return deleted
