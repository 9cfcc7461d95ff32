"""Dispatch: gives slots to queued fetches and sends them to the fetchers.

1. The backlog flags of sites at which a fetch has become due are activated (backlog.py).
2. One statement reserves slots, up to the look-ahead, at every site that has work and is reserved less than REFILL
   ahead, and gives the slots to the best queued fetches (sql/dispatch.sql): by priority and age, or, at a site with
   shares, in their turns, by deficit round robin (weir_fetches_in_turn, in migrations/0019_in_turn.py). If PostgreSQL
   is far away, REFILL and the look-ahead are longer (`horizon`).
3. At sites that were ever split, the fetches that got slots are looked at again. A fetch whose host belongs to another
   site by now is taken out (strays.py).
4. The slots travel in messages of about a hundred. A run is never split over two messages, because its holder keeps the
   interval between its own starts. The fetcher looks up which fetch has a slot when it claims the slot: if the fetch
   was cancelled, its successor has the slot.
5. The backlog flags of sites at which nothing is due any more are deactivated.

A message that is lost changes latency only: the lease of a reserved fetch runs out shortly after its slot.

While fetchers are down, or behind, nothing is reserved. Each fetch would miss its slot, come back and be sent again,
and fetchers would spend their time on those messages instead of fetching. For a while afterwards, a little more is
reserved than fetchers did lately, at one site after the other (Overload). So the sites share what fetchers can do, if
that is less than the sum of all rates.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.ratelimit import clock, round_trips
from weir.ratelimit.pacing import CONFIRMED_FOR_S, GRACE_SHARE
from weir.ratelimit.sites import SitesLocked
from weir.workers import task_names
from weir.workers.fetches import backlog, strays
from weir.workers.processes.status import longest_round_trip_s
from weir.workers.publish import publish, waiting
from weir.workers.schedule import MOST_UNTAKEN, REFILL, TRAVEL

log = get_logger(__name__)

SITES_A_STATEMENT = 2_000
LONGEST_RUN = 2_000  # slots: two seconds of the fastest site
LONGEST_EXTRA = 5.0  # seconds of look-ahead, for runs that last longer far from PostgreSQL
SLOTS_A_MESSAGE = 100
MOST_LATE = 100  # reserved fetches that no fetcher has taken before their slots passed: a message's worth
MOST_LATE_S = 0.5  # or as many as fetchers do in this time, if that is more: if one of many is killed, the others go on
LATELY = 2.0  # seconds in which the requests of fetchers are counted
NEWEST_SLOTS = 20_000  # the slots that are looked at for this count: of the last seconds, if many are reserved
OVERLOAD_LASTS = 30.0  # seconds after which dispatch tries again whether fetchers can do all that is due
GROWTH = 1.1  # how many times as much as fetchers did is reserved in an overload: with 1.0 they could never do more
LEAST_AHEAD = 300  # slots
FEWEST = 4  # slots of one site: shorter runs cost fetchers more, and longer ones leave less for other sites
MOST_STATEMENTS = 5  # statements of one tick, if sites have fewer fetches than slots
ANY_NUMBER = 2**31 - 1  # slots
ROUND_TRIPS_TO_SEND = 4  # round trips of a tick, before its messages are sent
ROUND_TRIPS_TO_CLAIM = 3  # round trips of a fetcher, after its message has come
APART = 0.0005  # seconds between the first starts of two idle sites: about the work of a fetcher for one fetch
PHASES = 500  # after so many sites, the next starts together with the first: APART * PHASES is the longest delay
# Seconds that a message may be late before sweep takes its fetches back. A longer time would only keep them waiting.
DELIVERY = 2.0


class Horizon(NamedTuple):
    """How far ahead sites are reserved, in seconds."""

    travel_s: float  # a slot is reserved at least so long before its start: its message has to be sent and claimed
    refill_s: float  # a site that is reserved for less than this is due
    lookahead_s: float


class DispatchedRun(NamedTuple):
    """The slots that a site got, in the order of their starts."""

    site_id: int
    slot_ids: list[int]
    drained: bool
    was_split: bool


class Reserved(NamedTuple):
    """How many fetches were sent, and the site after which there was no room for more; 0 if there was room for all."""

    sent: int
    stopped_after: int


class InHand(NamedTuple):
    """The reserved fetches that fetchers still have to claim."""

    late: int  # those whose slots have passed
    reserved: int  # all of them

    @classmethod
    def now(cls, lookahead_s: float) -> "InHand":
        """Count these fetches now, with one statement."""
        [row] = IN_HAND(delivery=DELIVERY, horizon=lookahead_s + LONGEST_EXTRA)
        return row

    def are_behind(self, messages: int) -> bool:
        """Return whether fetches that were reserved now would be late, too; `messages` wait for fetchers."""
        return messages > MOST_UNTAKEN or (self.late > MOST_LATE and self.late > MOST_LATE_S * used_per_s())


DISPATCH = Statement("dispatch", row=DispatchedRun, commits=True)
IN_HAND = Statement("in_hand", row=InHand, commits=False)
USED_LATELY = Statement("used_lately", returns=float, commits=False)


def used_per_s() -> float:
    """Return how many requests a second fetchers have sent lately. This takes longer than `InHand.now`."""
    [per_s] = USED_LATELY(lately=LATELY, most=NEWEST_SLOTS)
    return per_s


class Overload:
    """Whether fetchers cannot do all that is due. Each process of `ticks` finds this out for itself.

    In an overload, slots are reserved for GROWTH times as many fetches as fetchers did lately. If fetchers can do more,
    their number of fetches grows by this factor in each look-ahead. If they cannot, the slots beyond what they can do
    are reserved in vain.
    """

    def __init__(self) -> None:
        self._lasts_until = -math.inf
        self.after = 0  # the site after which the next tick goes on

    def begin(self) -> None:
        """Record that fetchers are behind."""
        self._lasts_until = clock.now() + OVERLOAD_LASTS

    def room(self, reserved: int, lookahead_s: float) -> int:
        """Return how many slots may be reserved besides those that fetchers still have to claim (`reserved`)."""
        if clock.now() > self._lasts_until:
            return ANY_NUMBER
        return max(LEAST_AHEAD, round(GROWTH * used_per_s() * lookahead_s)) - reserved


_overload = Overload()


def horizon(round_trip_s: float) -> Horizon:
    """Return how far ahead to reserve if a round trip to PostgreSQL takes `round_trip_s` seconds.

    The longer it takes, the longer a tick and the claims of fetchers take, and the longer is the grace at the end of a
    run. So runs are made longer, too: the grace stays a small part of each.
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
    """Reserve at all sites that are due, or only at those of `site_ids`; returns the number of fetches sent.

    `site_ids` names sites whose backlog flags were just activated. All other sites get their slots once a tick, in runs
    that are as long as possible; so do sites at which a queued fetch has become due. Safe to run in any process, and
    any number of times together: sites that another dispatch has locked are left to it.
    """
    messages = waiting(task_names.FETCH_BATCH)
    if messages is None:
        return 0  # the broker is away: fetches that were reserved now could not be sent
    round_trips.of_process.warn_if_far(round_trip_s := longest_round_trip_s())
    ahead = horizon(round_trip_s)
    in_hand = InHand.now(ahead.lookahead_s)
    if in_hand.are_behind(messages):
        _overload.begin()
        log.warning("fetchers_are_behind", messages=messages, late=in_hand.late)
        return 0
    if site_ids is None:
        backlog.activate_due()
    room = _overload.room(in_hand.reserved, ahead.lookahead_s)
    if site_ids is not None:
        return _reserve(room, round_trip_s, site_ids=site_ids).sent
    done = _reserve(room, round_trip_s, after=_overload.after)
    sent = done.sent
    if _overload.after and not done.stopped_after:
        done = _reserve(room - sent, round_trip_s)
        sent += done.sent
    _overload.after = done.stopped_after
    return sent


def _reserve(room: int, round_trip_s: float, *, after: int = 0, site_ids: list[int] | None = None) -> Reserved:
    """Reserve up to `room` slots at the sites after `after`, or at `site_ids`, and send them."""
    ahead = horizon(round_trip_s)
    sent, statements_left, more = 0, MOST_STATEMENTS, True
    while more and sent < room and statements_left:
        rows = DISPATCH(
            added_grace=round_trips.added_grace_s(round_trip_s),
            lookahead=ahead.lookahead_s,
            refill=ahead.refill_s,
            most=SITES_A_STATEMENT,
            most_slots=room - sent,
            fewest=FEWEST,
            longest_run=LONGEST_RUN,
            delivery=DELIVERY,
            travel=ahead.travel_s,
            apart=APART,
            phases=PHASES,
            confirmed_for=CONFIRMED_FOR_S,
            after=after,
            sites=site_ids,
        )
        sent += _send(row.slot_ids for row in rows if not row.was_split)
        if was_split := [row.slot_ids for row in rows if row.was_split]:
            sent += _send_split(was_split)
        backlog.deactivate([row.site_id for row in rows if row.drained])
        after = rows[-1].site_id if rows else after
        more = len(rows) == SITES_A_STATEMENT or (room < ANY_NUMBER and bool(rows))
        statements_left -= room < ANY_NUMBER
    return Reserved(sent, after if more else 0)


def _send_split(runs: Sequence[list[int]]) -> int:
    """Take strays out of the runs of sites that were ever split, and send the runs.

    No run is sent if the strays cannot be moved now. The fetches then go back to the queue when their leases run out.
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
