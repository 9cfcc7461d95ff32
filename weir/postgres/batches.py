"""Deletes many rows in short transactions, so that no lock is held for long and a kill costs one batch at most."""

import math
import time

from weir.postgres.statements import Statement


def delete(statement: Statement[int], *, batch: int, within_s: float = math.inf, **parameters: object) -> int:
    """Execute a statement that deletes up to `batch` rows, until one execution deletes fewer; returns how many in all.

    The statement gets `batch` among its parameters, and returns how many it has deleted. Each execution commits by
    itself. After `within_s` seconds no other begins: what is left is for the next call. Raises what the statement
    raises; what was deleted until then stays deleted.
    """
    deleted, last = 0, batch
    give_up_at = time.monotonic() + within_s
    while last == batch:
        [last] = statement(**parameters, batch=batch)
        deleted += last
        if time.monotonic() >= give_up_at:
            break
    return deleted
