"""The backlog flags: which sites have fetches that are due, so that dispatch looks at a few sites instead of at all.

`Site.has_backlog` is a hint. Where it is inactive, `Site.due_at` notes when the first of the site's queued fetches
becomes due; each tick begins by activating the flags of those sites for which that time has come (`activate_due`). Both
are changed in two steps on each side, so that no queued fetch is overlooked although no lock is taken:

1. A process that queues fetches, or has them due sooner, commits that first, and looks at their sites afterwards
   (`activate`): an inactive one becomes active, or gets an earlier `due_at`.
2. Dispatch, where a site looks empty, deactivates the flag, notes `due_at`, commits, and then *looks again*.

A fetch that was committed before the second look of step 2 is seen by it. One that is committed later finds the flag
inactive in step 1. If a process dies in between, `find_overlooked` (part of sweep) finds the site on its rounds through
all sites.
"""

from collections.abc import Iterable
from typing import NamedTuple

from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from weir.logs.loggers import get_logger
from weir.postgres import bounded
from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.publish import publish

log = get_logger(__name__)

SITES_A_LOOK = 10_000  # a look at all of 100,000 would cost PostgreSQL a twentieth of a core, all the time
SITES_AT_ONCE = 2_000  # that are activated in one transaction, as their rows are locked meanwhile
PATIENCE_S = 0.5  # a sweep has more to do than to wait for who holds a site
MOST_NAMED = 1_000  # sites in a message to dispatch; where more are activated at once, dispatch looks at all
_looked_up_to = 0  # the id of a site


class BacklogLook(NamedTuple):
    """What came of a look at sites."""

    activated: list[int]
    looked_at: int
    last: int | None  # of those that were looked at


ACTIVATE = Statement("activate", row=BacklogLook, commits=True)
ACTIVATE_WITHIN = Statement("activate", row=BacklogLook, commits=False)
ACTIVATE_DUE = Statement("activate_due", returns=int, commits=True)
DEACTIVATE = Statement("deactivate", returns=int, commits=True)


def activate(site_ids: Iterable[int]) -> None:
    """Look at sites, after the commit of what is queued for them; wakes dispatch for those that become active.

    Where nothing is due yet, a site stays inactive, and `due_at` says when that changes.
    """
    if sites := sorted(set(site_ids)):
        _wake_dispatch(_look(sites=sites).activated)


def wake(site_ids: Iterable[int]) -> None:
    """Look at sites as `activate` does, and wake dispatch for all of them: what waited there may go on."""
    if sites := sorted(set(site_ids)):
        _look(sites=sites)
        _wake_dispatch(sites)


def deactivate(site_ids: list[int]) -> None:
    """Deactivate the flags of those sites that have nothing due."""
    deactivated = DEACTIVATE(sites=site_ids) if site_ids else []
    if deactivated:
        _look(sites=deactivated)


def activate_due() -> int:
    """Activate the flags of the sites at which something has become due; returns of how many."""
    activated, more = 0, True
    while more:
        [last] = ACTIVATE_DUE(most=SITES_AT_ONCE)
        activated, more = activated + last, last == SITES_AT_ONCE
    return activated


def find_overlooked() -> int:
    """Look at the next SITES_A_LOOK sites; returns how many were activated, as something is due there.

    Each call goes on after the last site that this process looked at, and begins anew after the last of all. Where
    another transaction holds one that was overlooked for longer than PATIENCE_S, none of them is activated.
    """
    global _looked_up_to  # noqa: PLW0603  each process makes its own rounds
    try:
        with bounded.not_waiting_for_locks(PATIENCE_S):
            look = _look(ACTIVATE_WITHIN, after=_looked_up_to, most=SITES_A_LOOK)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        log.warning("overlooked_sites_wait_for_others")
        return 0
    _looked_up_to = (look.last or 0) if look.looked_at == SITES_A_LOOK else 0
    return len(look.activated)


def _look(
    activate: Statement[BacklogLook] = ACTIVATE,
    *,
    sites: list[int] | None = None,
    after: int = 0,
    most: int | None = None,
) -> BacklogLook:
    [look] = activate(sites=sites, after=after, most=most)
    return look


def _wake_dispatch(sites: list[int]) -> None:
    if sites:
        publish(task_names.DISPATCH, sites if len(sites) <= MOST_NAMED else None)
