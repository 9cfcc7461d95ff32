"""Dispatch: gives slots to queued fetches and sends them to the fetchers.

1. One statement books every lane that is booked less than the look-ahead ahead (sql/dispatch.sql).
2. Lanes that looked empty are turned off, and looked at again (backlog.py).
3. The fetches travel in messages of about a hundred; a lane's run of slots is never split over two, because its holder
   keeps the interval between its own starts.

A message that is lost changes latency only: the lease of a reserved fetch runs out shortly after its slot.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from django.conf import settings

from postgres import statements
from workers.fetches import backlog
from workers.publish import publish

_run = partial(statements.run, "workers.fetches")

LANES_A_STATEMENT = 2_000
LONGEST_RUN = 500
FETCHES_A_MESSAGE = 100
# Seconds that a message takes to a fetcher that has to connect first; a start before that would only be missed.
TRAVEL = 0.1
APART = 0.0005  # seconds between the first starts of two idle lanes: about what a fetch costs a fetcher
PHASES = 500  # after so many, a lane starts with the first one again: nobody waits longer than for their sum
# Seconds that a message may be late before sweep takes its fetches back. More would only keep them waiting.
DELIVERY = 2.0


def dispatch() -> int:
    """Book all lanes that are due; returns the number of fetches sent on their way.

    Safe to run anywhere, any number of times at once: lanes that another dispatch is booking are left to it.
    """
    sent, after, more = 0, 0, True
    while more:
        rows = _run(
            "dispatch",
            {
                "lookahead": settings.WEIR_LOOKAHEAD,
                "lanes": LANES_A_STATEMENT,
                "longest_run": LONGEST_RUN,
                "delivery": DELIVERY,
                "travel": TRAVEL,
                "apart": APART,
                "phases": PHASES,
                "after": after,
            },
        )
        newest_slot = max((row.newest_slot for row in rows if row.newest_slot), default=0)
        for fetch_ids in batches(row.fetch_ids for row in rows):
            publish("workers.tasks.fetch_batch", fetch_ids, newest_slot)
            sent += len(fetch_ids)
        backlog.turn_off([row.site_id for row in rows if row.drained])
        after, more = (rows[-1].site_id, len(rows) == LANES_A_STATEMENT) if rows else (after, False)
    return sent


def batches(runs: Iterable[list[int]]) -> Iterator[list[int]]:
    """Pack whole runs into messages of FETCHES_A_MESSAGE fetches or a little more."""
    batch: list[int] = []
    for run in runs:
        batch.extend(run)
        if len(batch) >= FETCHES_A_MESSAGE:
            yield batch
            batch = []
    if batch:
        yield batch
