"""Dispatch: gives slots to queued fetches and sends them to the fetchers.

1. The backlog flags of sites at which something has become due are activated (backlog.py).
2. One statement reserves slots, up to the look-ahead, at every site that has work and is reserved for less than REFILL,
   and gives them to the best queued fetches (sql/dispatch.sql). Far from PostgreSQL, both are longer (horizon).
3. At sites that were ever split, what was reserved is looked at again: a fetch whose host belongs to another site by
   now is taken out (strays.py).
4. The slots travel in messages of about a hundred. A run is never split over two messages, because its holder keeps the
   interval between its own starts. The fetcher looks up which fetch a slot is for when it claims it: where a fetch was
   cancelled, its successor has the slot.
5. The backlog flags of sites at which nothing is due any more are deactivated.

A message that is lost changes latency only: the lease of a reserved fetch runs out shortly after its slot.

While fetchers are down, or far behind, nothing is reserved. Each fetch would miss its slot, come back and be sent
again, and a fetcher that takes up work would have to get through all those messages first.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import structlog
from django.conf import settings

from postgres import statements
from ratelimit import round_trips
from ratelimit.pacing import CONFIRMED_FOR_S, GRACE_SHARE
from ratelimit.sites import SitesLocked
from workers import task_names
from workers.fetches import backlog, strays
from workers.processes.status import longest_round_trip_s
from workers.publish import publish, waiting

_query = partial(statements.run, "workers.fetches")
log = structlog.get_logger(__name__)

SITES_A_STATEMENT = 2_000
LONGEST_RUN = 2_000  # slots: two seconds of the fastest site
# Seconds: a site that is reserved less far ahead is due. More than a tick of the schedule, which may be late, and less
# than the look-ahead, because longer runs are handed over less often.
REFILL = 1.5
LONGEST_EXTRA = 5.0  # seconds of look-ahead, for runs that last longer far from PostgreSQL
SLOTS_A_MESSAGE = 100
# Messages that no fetcher has taken. Where their slots have passed, a fetcher gets through some 200 a second.
MOST_WAITING = 500
# Seconds that a message takes to a fetcher that has to connect first; a start before that would only be missed.
TRAVEL = 0.1
ROUND_TRIPS_TO_SEND = 4  # of a tick, before its messages are sent
ROUND_TRIPS_TO_CLAIM = 3  # of a fetcher, after its message has come
APART = 0.0005  # seconds between the first starts of two idle sites: about what a fetch costs a fetcher
PHASES = 500  # after so many sites, the next starts together with the first: APART * PHASES is the longest delay
# Seconds that a message may be late before sweep takes its fetches back. More would only keep them waiting.
DELIVERY = 2.0


class Horizon(NamedTuple):
    """How far ahead sites are reserved, in seconds."""

    travel_s: float  # before its start, a slot is reserved at the latest: a message takes so long to its claim
    refill_s: float  # a site that is reserved less far is due
    lookahead_s: float


class ReservedRun(NamedTuple):
    """The slots that a site has got, in their order."""

    site_id: int
    slot_ids: list[int]
    drained: bool
    was_split: bool


def horizon(round_trip_s: float) -> Horizon:
    """Return how far ahead to reserve where PostgreSQL is so far away.

    A tick and its fetchers' claims take longer there, and a run is handed over at a longer grace: it lasts longer, so
    that the grace stays a small part.
    """
    takes_s = (ROUND_TRIPS_TO_SEND + ROUND_TRIPS_TO_CLAIM) * round_trip_s
    longer_s = min(LONGEST_EXTRA, round_trips.added_grace_s(round_trip_s) / GRACE_SHARE)
    lookahead_s = settings.WEIR_LOOKAHEAD
    return Horizon(
        travel_s=TRAVEL + ROUND_TRIPS_TO_CLAIM * round_trip_s,
        refill_s=min(REFILL, lookahead_s) + takes_s,
        lookahead_s=lookahead_s + takes_s + longer_s,
    )


def dispatch(site_ids: list[int] | None = None) -> int:
    """Reserve at all sites that are due, or at those of them that are named; returns the number of fetches sent.

    Sites are named when their backlog flags are activated. The others get their slots once a tick, in runs as long as
    can be; so do those at which something has become due. Safe to run anywhere, any number of times at once: sites that
    another dispatch has locked are left to it.
    """
    messages = waiting(task_names.FETCH_BATCH)
    if messages is None:
        return 0  # what was reserved now could not be sent
    if messages > MOST_WAITING:
        log.warning("fetchers_are_behind", messages=messages)
        return 0
    if site_ids is None:
        backlog.activate_due()
    sent, after, more = 0, 0, True
    round_trips.of_process.warn_if_far(round_trip_s := longest_round_trip_s())
    ahead = horizon(round_trip_s)
    while more:
        rows = _query(
            "dispatch",
            {
                "added_grace": round_trips.added_grace_s(round_trip_s),
                "lookahead": ahead.lookahead_s,
                "refill": ahead.refill_s,
                "most": SITES_A_STATEMENT,
                "longest_run": LONGEST_RUN,
                "delivery": DELIVERY,
                "travel": ahead.travel_s,
                "apart": APART,
                "phases": PHASES,
                "confirmed_for": CONFIRMED_FOR_S,
                "after": after,
                "sites": site_ids,
            },
            row=ReservedRun,
        )
        sent += _send(row.slot_ids for row in rows if not row.was_split)
        if was_split := [row.slot_ids for row in rows if row.was_split]:
            sent += _send_split(was_split)
        backlog.deactivate([row.site_id for row in rows if row.drained])
        after, more = (rows[-1].site_id, len(rows) == SITES_A_STATEMENT) if rows else (after, False)
    return sent


def _send_split(runs: Sequence[list[int]]) -> int:
    """Send the runs of sites that were ever split, without strays; none of them where strays cannot be told apart.

    Their fetches then go back to the queue when their leases run out.
    """
    try:
        strays.take_out(chain.from_iterable(runs))
    except SitesLocked:  # other transactions are in the way of a stray's new site
        log.warning("runs_wait_for_sites", runs=len(runs))
        return 0
    return _send(runs)


def _send(runs: Iterable[list[int]]) -> int:
    sent = 0
    for slot_ids in batches(runs):
        publish(task_names.FETCH_BATCH, slot_ids)
        sent += len(slot_ids)
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
