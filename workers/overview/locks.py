"""Who holds up others: the sessions that hold a lock for which others wait."""

from typing import Final, NamedTuple

from weir.postgres.statements import Statement

MOST: Final = 3  # that are named
LONG_S: Final = 10.0  # for which a session waits before somebody should look


class LockHolder(NamedTuple):
    """A session that holds a lock, and waits for none itself."""

    pid: int  # 0: a transaction that is prepared
    application_name: str
    role: str
    state: str  # such as idle in transaction; empty where the role may not know
    open_s: float | None  # for how long its transaction has been open
    sessions: int  # that wait for it
    waits_s: float  # the longest


LOCKS = Statement("locks", row=LockHolder, commits=False)


def holders(*, after_s: float, exclusive: bool = False) -> list[LockHolder]:
    """Return who holds locks for which others have waited for so long; `exclusive`: also who has a table to itself.

    At most MOST, those that hold up the most sessions first. Reads only; waits for no lock.
    """
    return LOCKS(after=after_s, exclusive=exclusive, most=MOST)
