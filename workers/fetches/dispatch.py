"""Dispatch: gives slots to queued fetches and sends them to the fetchers.

1. One statement books up to the look-ahead every site whose bookings run out soon (sql/dispatch.sql).
2. Sites that looked empty are turned off, and looked at again (backlog.py).
3. The slots travel in messages of about a hundred; a site's run is never split over two, because its holder keeps the
   interval between its own starts. Which fetch a slot is for is looked up when it is claimed: where one is cancelled,
   another has taken its place.

A message that is lost changes latency only: the lease of a reserved fetch runs out shortly after its slot.

Where fetchers are down, or far behind, nothing is booked: each fetch would come back and be sent again, and whoever
takes up the work would have all those messages to get through first.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import structlog
from django.conf import settings

from postgres import statements
from ratelimit.pacing import CONFIRMED_FOR_S
from workers import task_names
from workers.fetches import backlog
from workers.publish import publish, waiting

_query = partial(statements.run, "workers.fetches")
log = structlog.get_logger(__name__)

SITES_A_STATEMENT = 2_000
LONGEST_RUN = 2_000  # slots: two seconds of the fastest site
# Seconds: a site that is booked less far ahead is booked anew. More than a tick of the schedule, which may be late, and
# less than the look-ahead, because longer runs are handed over less often.
REFILL = 1.5
SLOTS_A_MESSAGE = 100
# Messages that nobody has taken: a fetcher gets through some 200 a second when it is too late for what they are about.
MOST_WAITING = 500
# Seconds that a message takes to a fetcher that has to connect first; a start before that would only be missed.
TRAVEL = 0.1
APART = 0.0005  # seconds between the first starts of two idle sites: about what a fetch costs a fetcher
PHASES = 500  # after so many, a site starts with the first one again: nobody waits longer than for their sum
# Seconds that a message may be late before sweep takes its fetches back. More would only keep them waiting.
DELIVERY = 2.0


def dispatch(site_ids: list[int] | None = None) -> int:
    """Book all sites that are due, or those of them that are named; returns the number of fetches sent on their way.

    Sites are named where they wake: the others are booked once a tick, in runs as long as can be.
    Safe to run anywhere, any number of times at once: sites that another dispatch is booking are left to it.
    """
    if (messages := waiting(task_names.FETCH_BATCH)) > MOST_WAITING:
        log.warning("fetchers_are_behind", messages=messages)
        return 0
    sent, after, more = 0, 0, True
    while more:
        rows = _query(
            "dispatch",
            {
                "lookahead": settings.WEIR_LOOKAHEAD,
                "refill": min(REFILL, settings.WEIR_LOOKAHEAD),
                "most": SITES_A_STATEMENT,
                "longest_run": LONGEST_RUN,
                "delivery": DELIVERY,
                "travel": TRAVEL,
                "apart": APART,
                "phases": PHASES,
                "confirmed_for": CONFIRMED_FOR_S,
                "after": after,
                "sites": site_ids,
            },
        )
        for slot_ids in batches(row.slot_ids for row in rows):
            publish(task_names.FETCH_BATCH, slot_ids)
            sent += len(slot_ids)
        backlog.deactivate([row.site_id for row in rows if row.drained])
        after, more = (rows[-1].site_id, len(rows) == SITES_A_STATEMENT) if rows else (after, False)
    return sent


def batches(runs: Iterable[list[int]]) -> Iterator[list[int]]:
    """Pack whole runs into messages of SLOTS_A_MESSAGE slots or a little more."""
    batch: list[int] = []
    for run in runs:
        batch.extend(run)
        if len(batch) >= SLOTS_A_MESSAGE:
            yield batch
            batch = []
    if batch:
        yield batch
