"""The backlog flags: which sites have fetches that are due, so that dispatch looks at a few sites instead of at all.

`Site.has_backlog` is a hint. While it is inactive, `Site.due_at` says when the first of the site's queued fetches
becomes due. Each tick begins by activating the flags of the sites whose time has come (`activate_due`). No lock is
taken. Flag and time are changed in two steps on each side, so that no queued fetch is overlooked:

1. A process that queues fetches, or makes fetches due sooner, commits that first, and looks at their sites afterwards
   (`activate`): an inactive site becomes active, or gets an earlier `due_at`.
2. If a site looks empty to dispatch, dispatch deactivates the flag, sets `due_at`, commits, and then *looks again*.

If a fetch was committed before the second look of step 2, that look sees it. If a fetch is committed later, its process
finds the flag inactive in step 1. If a process dies in between, `find_overlooked` (part of sweep) finds the site on its
rounds through all sites.
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
SITES_AT_ONCE = 2_000  # sites that are activated in one transaction; their rows are locked until it ends
PATIENCE_S = 0.5  # seconds that a sweep waits for the lock of a site: it has other things to do
MOST_NAMED = 1_000  # sites in a message to dispatch; if more are activated together, dispatch looks at all sites
_looked_up_to = 0  # the id of a site


class BacklogLook(NamedTuple):
    """The result of a look at sites."""

    activated: list[int]
    looked_at: int
    last: int | None  # the last site that was looked at


ACTIVATE = Statement("activate", row=BacklogLook, commits=True)
ACTIVATE_WITHIN = Statement("activate", row=BacklogLook, commits=False)
ACTIVATE_DUE = Statement("activate_due", returns=int, commits=True)
DEACTIVATE = Statement("deactivate", returns=int, commits=True)


def activate(site_ids: Iterable[int]) -> None:
    """Look at sites, after the commit of fetches that are queued there; wakes dispatch for sites that become active.

    A site at which nothing is due yet stays inactive, and `due_at` says when that changes.
    """
    if sites := sorted(set(site_ids)):
        _wake_dispatch(_look(sites=sites).activated)


def wake(site_ids: Iterable[int]) -> None:
    """Look at sites as `activate` does, and wake dispatch for all of them: fetches that waited there may go on."""
    if sites := sorted(set(site_ids)):
        _look(sites=sites)
        _wake_dispatch(sites)


def deactivate(site_ids: list[int]) -> None:
    """Deactivate the flags of those sites that have nothing due."""
    deactivated = DEACTIVATE(sites=site_ids) if site_ids else []
    if deactivated:
        _look(sites=deactivated)


def activate_due() -> int:
    """Activate the flags of the sites at which a fetch has become due; returns the number of sites."""
    activated, more = 0, True
    while more:
        [last] = ACTIVATE_DUE(most=SITES_AT_ONCE)
        activated, more = activated + last, last == SITES_AT_ONCE
    return activated


def find_overlooked() -> int:
    """Look at the next SITES_A_LOOK sites; returns how many were activated because a fetch is due there.

    Each call goes on after the last site that this process looked at, and begins again after the last site of all. If
    another transaction holds a site that is to be activated for longer than PATIENCE_S, no site is activated.
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
