"""Who holds up others: the sessions that hold a lock for which others wait."""

from functools import partial
from typing import Final, NamedTuple

from weir.postgres import statements

MOST: Final = 3  # that are named
LONG_S: Final = 10.0  # for which a session waits before somebody should look

_query = partial(statements.run_within, "weir.workers.overview")


class Holder(NamedTuple):
    """A session that holds a lock, and waits for none itself."""

    pid: int  # 0: a transaction that is prepared
    application_name: str
    role: str
    state: str  # such as idle in transaction; empty where the role may not know
    open_s: float | None  # for how long its transaction has been open
    sessions: int  # that wait for it
    waits_s: float  # the longest


def holders(*, after_s: float, exclusive: bool = False) -> list[Holder]:
    """Return who holds locks for which others have waited for so long; `exclusive`: also who has a table to itself.

    At most MOST, those that hold up the most sessions first. Reads only; waits for no lock.
    """
    return _query("locks", {"after": after_s, "exclusive": exclusive, "most": MOST}, row=Holder)
