"""Which sites have queued work: what lets dispatch look at a few sites instead of at all of them.

`Site.has_backlog` is a hint kept in two steps, so that no queued fetch is overlooked without a lock being taken:

1. Whoever queues fetches commits them first and turns their sites on afterwards.
2. Dispatch, when a site looks empty, turns it off, commits, and then *looks again*.

A fetch committed before step 2's second look is seen by it; one committed later finds the site off in step 1, and
turns it on. Should a process die in between, `find_overlooked()` (part of sweep) finds it, on its rounds through all sites.
"""

from collections.abc import Iterable
from functools import partial

from postgres import statements
from workers import task_names
from workers.publish import publish

_query = partial(statements.run, "workers.fetches")

SITES_A_LOOK = 10_000  # a look at all of 100,000 would cost PostgreSQL a twentieth of a core, all the time
MOST_NAMED = 1_000  # sites in a message to dispatch; where more wake at once, it looks at all
_looked_up_to = 0


def activate(site_ids: Iterable[int]) -> None:
    """Turn sites on, after the fetches queued in them were committed; has dispatch book those that were off."""
    sites = sorted(set(site_ids))
    woken = sorted(row.id for row in _query("activate", {"sites": sites})) if sites else []
    if woken:
        publish(task_names.DISPATCH, woken if len(woken) <= MOST_NAMED else None)


def deactivate(site_ids: list[int]) -> None:
    """Turn off those sites that have nothing queued."""
    off = [row[0] for row in _query("deactivate", {"sites": site_ids})] if site_ids else []
    if off:
        _query("reactivate", {"sites": off})


def find_overlooked() -> int:
    """Turn on those of the next SITES_A_LOOK sites that have queued fetches but are off; returns how many that were.

    Each call goes on after the last site that this process looked at, and begins anew behind the last of all.
    """
    global _looked_up_to  # noqa: PLW0603  where a process is in its rounds concerns nobody else
    [look] = _query("find_overlooked", {"after": _looked_up_to, "most": SITES_A_LOOK})
    _looked_up_to = look.last if look.looked_at == SITES_A_LOOK else 0
    return int(look.turned_on)
