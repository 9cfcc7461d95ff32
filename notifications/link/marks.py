"""The number of PostgreSQL's history that was last seen, kept in Redis: a witness where PostgreSQL has forgotten it."""

from weir.notifications.link import calls
from weir.notifications.link.keys import keys


def remember(number: int) -> int:
    """Remember the number, if it is the highest; return the highest that Redis knows, 0 where it knows none.

    Raises calls.Unreachable where Redis refuses, or does not answer in time.
    """
    return int(calls.run("mark", [keys().mark], [number]))
