"""The backlog flags: which sites have queued fetches, so that dispatch looks at a few sites instead of at all of them.

`Site.has_backlog` is a hint. It is changed in two steps on each side, so that no queued fetch is overlooked although no
lock is taken:

1. A process that queues fetches commits them first, and activates the flags of their sites afterwards.
2. Dispatch, where a site looks empty, deactivates the flag, commits, and then *looks again*: it reactivates the flag of
   a site that has queued fetches.

A fetch that was committed before the second look of step 2 is seen by it. One that is committed later finds the flag
inactive in step 1, and activates it. If a process dies in between, `find_overlooked` (part of sweep) finds the site on
its rounds through all sites.
"""

from collections.abc import Iterable
from functools import partial

from postgres import statements
from workers import task_names
from workers.publish import publish

_query = partial(statements.run, "workers.fetches")

SITES_A_LOOK = 10_000  # a look at all of 100,000 would cost PostgreSQL a twentieth of a core, all the time
MOST_NAMED = 1_000  # sites in a message to dispatch; where more are activated at once, dispatch looks at all
_looked_up_to = 0  # the id of a site


def activate(site_ids: Iterable[int]) -> None:
    """Activate the flags of sites, after the commit of what is queued for them; wakes dispatch for inactive ones."""
    sites = sorted(set(site_ids))
    activated = sorted(row.id for row in _query("activate", {"sites": sites})) if sites else []
    if activated:
        publish(task_names.DISPATCH, activated if len(activated) <= MOST_NAMED else None)


def deactivate(site_ids: list[int]) -> None:
    """Deactivate the flags of those sites that have nothing queued."""
    deactivated = [row.id for row in _query("deactivate", {"sites": site_ids})] if site_ids else []
    if deactivated:
        _query("reactivate", {"sites": deactivated})


def find_overlooked() -> int:
    """Activate the flags of those of the next SITES_A_LOOK sites that have queued fetches; returns how many changed.

    Each call goes on after the last site that this process looked at, and begins anew after the last of all.
    """
    global _looked_up_to  # noqa: PLW0603  each process makes its own rounds
    [look] = _query("find_overlooked", {"after": _looked_up_to, "most": SITES_A_LOOK})
    _looked_up_to = look.last if look.looked_at == SITES_A_LOOK else 0
    return int(look.activated)
