"""The sessions for whose locks other sessions wait."""

from typing import Final, NamedTuple

from weir.postgres.statements import Statement

MOST: Final = 3  # the most sessions that are returned
LONG_S: Final = 10.0  # how long a session waits before a person should look


class LockHolder(NamedTuple):
    """A session, or a prepared transaction, that holds a lock, and does not wait for a lock itself."""

    pid: int  # 0 for a prepared transaction
    application_name: str
    role: str
    state: str  # such as idle in transaction; empty if our role may not see it
    open_s: float | None  # for how long its transaction has been open
    sessions: int  # how many sessions wait for it
    waits_s: float  # how long the longest of them has waited


LOCKS = Statement("locks", row=LockHolder, commits=False)


def holders(*, after_s: float, exclusive: bool = False) -> list[LockHolder]:
    """Return the sessions with locks for which other sessions have waited for more than `after_s` seconds.

    If `exclusive` is true, also return sessions with an exclusive lock on a table. Returns at most MOST sessions; those
    for which the most sessions wait come first. Reads only, and waits for no lock.
    """
    return LOCKS(after=after_s, exclusive=exclusive, most=MOST)
