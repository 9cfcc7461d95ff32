"""The sessions that hold up others: each holds a lock for which others wait."""

from typing import Final, NamedTuple

from weir.postgres.statements import Statement

MOST: Final = 3  # at most this many are named
LONG_S: Final = 10.0  # how long a session waits before a person should look


class LockHolder(NamedTuple):
    """A session that holds a lock, and does not wait for one itself."""

    pid: int  # 0: a transaction that is prepared
    application_name: str
    role: str
    state: str  # such as idle in transaction; empty if the role may not know
    open_s: float | None  # for how long its transaction has been open
    sessions: int  # how many wait for it
    waits_s: float  # the longest


LOCKS = Statement("locks", row=LockHolder, commits=False)


def holders(*, after_s: float, exclusive: bool = False) -> list[LockHolder]:
    """Return sessions with locks for which others have waited that long; `exclusive`: also with a table to themselves.

    At most MOST; those that hold up the most sessions come first. Reads only; waits for no lock.
    """
    return LOCKS(after=after_s, exclusive=exclusive, most=MOST)
