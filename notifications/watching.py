"""Watching PostgreSQL's part of unread numbers, so that Redis alone can tell that a user's number has not changed.

A number is what PostgreSQL stores and what Redis holds after it. A flush moves deltas from one to the other, which
changes no number. What else changes PostgreSQL's part is rare: repairs, doubts, read marks, another Redis. Each flush
tells Redis what these are now; who changes them says so at once, too. Redis gives that a version, which a poll compares
(`weir.notifications.link.watch`). Where no flush has told it for ten seconds, a poll asks PostgreSQL.
"""

from typing import Final

from weir.notifications.link import calls, outages, watch
from weir.postgres.statements import Statement

MOST: Final = 1_000  # users with a doubt, and with a read mark, who are looked at each time


WATCHED_STATE: Statement[str | None] = Statement("watched_state", returns=str, commits=False, prepare=True)


def tell() -> None:
    """Tell Redis what PostgreSQL alone decides. Raises `counters.Unreachable`, and database errors."""
    found = WATCHED_STATE(most=MOST)
    watch.tell(found[0] if found else None)


def changed() -> None:
    """Say at once that PostgreSQL's part has changed; where Redis does not hear it, the next flush says so."""
    try:
        watch.bump()
    except calls.Unreachable as error:
        outages.warn("unread_change_not_told", error)
