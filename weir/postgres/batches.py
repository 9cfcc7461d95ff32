"""Deletes many rows in short transactions: no lock is held for long, and a killed process loses one batch at most."""

import math
import time

from weir.postgres.statements import Statement


def delete(statement: Statement[int], *, batch: int, within_s: float = math.inf, **parameters: object) -> int:
    """Repeat a statement that deletes up to `batch` rows until it deletes fewer; returns the number of deleted rows.

    The statement gets `batch` among its parameters, and returns how many rows it has deleted. Each execution commits by
    itself. After `within_s` seconds no further execution begins, and the next call deletes the remaining rows. Raises
    the errors of the statement; rows that earlier executions deleted stay deleted.
    """
    deleted, last = 0, batch
    give_up_at = time.monotonic() + within_s
    while last == batch:
        [last] = statement(**parameters, batch=batch)
        deleted += last
        if time.monotonic() >= give_up_at:
            break
    return deleted
