"""Slots: the starts reserved at a site.

Every call commits by itself and refuses to run inside `transaction.atomic()`. Times are measured with the database's
clock, and the database returns durations. This module converts the durations to points on the clock of holders
(clock.py). It adds the time until a start to the arrival of the reply, and the time until a deadline to the sending of
the statement ("safe duration" in docs/explanation/sql.md).

A process that holds slots for a longer time asks for `recalls`, or has its slots confirmed (`confirm`): see
weir.ratelimit.pacing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import OperationalError, connection

from weir.postgres.statements import Statement
from weir.ratelimit import clock, round_trips, site_names
from weir.ratelimit.models import FARTHEST_S, MOST_SLOTS, PAUSED_FOREVER
from weir.ratelimit.pacing import Confirmation, Run
from weir.ratelimit.sites import create_sites, known_sites
from weir.ratelimit.slot_rows import PurgedBatch, Recall, ReservedRow

CONFIRM = Statement("confirm", returns=int, commits=True, prepare=True)
ESTIMATE = Statement("estimate", returns=float, commits=True)
FINISH = Statement("finish", commits=True)
HAND_BACK = Statement("hand_back", commits=True)
NOTE_ANSWERS = Statement("note_answers", commits=True)
PURGE_SLOTS = Statement("purge_slots", row=PurgedBatch, commits=True)
RECALLS = Statement("recalls", row=Recall, commits=True, prepare=True)
RELEASE = Statement("release", commits=True)
RESERVE = Statement("reserve", row=ReservedRow, commits=True, prepare=True)
TAKE_GIVEN_BACK = Statement("take_given_back", row=ReservedRow, commits=True)
UNRESERVE = Statement("unreserve", commits=True)

PURGE_BATCH = 5_000
# Round trips that a process adds to the grace of its reservations: one for the reservation itself, and one that the
# process may need in its slot, in which the worker of a postponed task first deletes the task's row.
OWN_ROUND_TRIPS = 2
MOST_TRIES = 3  # to reserve: a first round trip, or one that is longer than before, may leave no time for a start
LATENESS_S = 0.002  # the time by which even a punctual holder is late
RETRY = 60.0  # seconds until the next start of a slow site whose last slot was given back (see `unreserve`)


class SlotTooFar(Exception):
    """The next free slot is farther away than `max_wait`."""

    def __init__(self, site: str, retry_after: float) -> None:
        super().__init__(
            f"{site} is paused until it is resumed."
            if retry_after == math.inf
            else f"The next free start of {site} is {retry_after:.3f} s away."
        )
        self.site = site
        self.retry_after = retry_after  # seconds until that start; infinite while the site is paused until resumed

    def __reduce__(self) -> tuple[type["SlotTooFar"], tuple[str, float]]:
        """Return the constructor and its arguments, for pickle: Celery pickles exceptions that a task raises."""
        return SlotTooFar, (self.site, self.retry_after)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservedSlot:
    """One start, which may not be made before `start_at`, a time on this host's clock of holders (clock.py)."""

    id: int
    start_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """The slots of one reservation, and their run: the run decides when each slot may be used."""

    site: str
    slots: tuple[ReservedSlot, ...]
    run: Run
    grace_s: float
    arrival_at: float  # GCRA's theoretical arrival time of the first start, on this host's clock of holders (clock.py)

    def is_too_short(self) -> bool:
        """Return whether the round trip took so long that even a punctual holder would be late for the last slot."""
        return self.run.is_over(self.slots[-1].start_at + LATENESS_S)


def check_max_wait(max_wait: float) -> None:
    """Raise ValueError unless this is a number of seconds from 0 to 100 years."""
    if not 0 <= max_wait <= FARTHEST_S:  # nan, too
        raise ValueError(
            f"max_wait must be a number of seconds, not negative and at most 100 years, but is {max_wait}."
        )


def reserve(site: str, count: int = 1, max_wait: float = 15.0, *, late_s: float = 0.0) -> Reservation:
    """Reserve `count` slots at the site; if it does not exist, at the nearest site above it that covers subdomains.

    If neither site exists, the site is created at the default rate. This takes one round trip for any number of slots.
    It takes a second one if a given-back slot is taken, and a few more if the name has no site of its own, or if a
    round trip took longer than earlier ones. `late_s` is added to the grace, for a holder that is far away.

    No two reservations, by any process on any host, overlap: until `run.use_until` the site belongs to the holder. The
    slots are committed when this returns.

    Raises SlotTooFar if the first start is more than `max_wait` seconds away (nothing is reserved then), ValueError for
    a count outside 1 to 10,000 and a `max_wait` outside 0 to 100 years, and TransactionManagementError inside a
    transaction.
    """
    check_max_wait(max_wait)
    if not 1 <= count <= MOST_SLOTS:
        raise ValueError(f"count must be between 1 and {MOST_SLOTS}, not {count}.")
    host = site_names.canonical(site)
    for _ in range(MOST_TRIES - 1):
        reservation = _reserve(host, count, max_wait, late_s)
        if not reservation.is_too_short():
            return reservation
        hand_back([slot.id for slot in reservation.slots], max(0.0, reservation.arrival_at - clock.now()))
    return _reserve(
        host, count, max_wait, late_s
    )  # may be too short, too: then its holder is too late, and gives it back


def _reserve(host: str, count: int, max_wait: float, late_s: float) -> Reservation:
    site = host
    measured = round_trips.of_process
    measured.warn_if_far(measured.usual_s())
    parameters = {
        "count": count,
        "places": list(range(count)),
        "max_wait": max_wait,
        "added_grace": _added_grace_s() + late_s,
    }
    connection.ensure_connection()  # before the measurement, because connecting takes several round trips
    while True:
        asked_at = clock.now()
        rows = RESERVE(site=site, **parameters)
        if not rows and count == 1:
            asked_at = clock.now()
            rows = TAKE_GIVEN_BACK(site=site, **parameters)
        answered_at = clock.now()
        if rows:
            measured.note(answered_at - asked_at - rows[0].server_s)
            if site == host or not rows[0].was_split or _belongs_to(host, site):
                return _reservation(site, rows, asked_at, answered_at)
            ids = [row.id for row in rows]  # the site was split meanwhile, and the host belongs to another one
            release(*ids)
            unreserve(ids)
            site = host
        elif (wait_s := wait_at(site, count, late_s)) is None:
            site = _covered_or_created(site)
        elif wait_s > max_wait:
            raise SlotTooFar(site, wait_s)


def _reservation(site: str, rows: Sequence[ReservedRow], asked_at: float, answered_at: float) -> Reservation:
    first = rows[0]
    return Reservation(
        site=site,
        slots=tuple(ReservedSlot(id=row.id, start_at=answered_at + row.wait_s) for row in rows),
        run=Run(
            interval_s=first.interval_s,
            burst=first.burst,
            start_until=asked_at + first.use_until_s,
            use_until=asked_at + first.use_until_s,
            confirmation=Confirmation(asked_at=asked_at),
        ),
        grace_s=first.grace_s,
        arrival_at=answered_at + first.arrival_s,
    )


def confirm(reservation: Reservation) -> bool:
    """Ask the database whether the reservation's slots still stand; the run records when the database was asked."""
    asked_at = clock.now()
    ids = [slot.id for slot in reservation.slots]
    stands = len(standing(ids)) == len(ids)
    reservation.run.confirmation.asked_at = asked_at
    return stands


def standing(slot_ids: Sequence[int]) -> set[int]:
    """Return which of the slots still stand. A recall makes all slots of a run void, or none."""
    return set(CONFIRM(slots=list(slot_ids)))


def recalls(window_s: float) -> list[Recall]:
    """Return what was recalled in the last `window_s` seconds, on the database's clock.

    Raises OperationalError if the database is a standby: the primary's last commits may not have arrived there yet.
    """
    connection.ensure_connection()  # so that connecting is not measured
    asked_at = clock.now()
    rows = RECALLS(window=window_s)
    round_trips.of_process.note(clock.now() - asked_at)
    if any(row.is_standby for row in rows):
        raise OperationalError("this database is a standby, which cannot tell what was recalled")
    return [row for row in rows if row.site_id]


def release(*slot_ids: int) -> int:
    """Give unused slots back; returns how many of them were neither used nor given back before.

    If a given-back slot was reserved alone and lies in the future, the next reservation takes it. A slot that was used
    or given back before stays as it is, so this may be called twice.
    """
    return len(RELEASE(slots=list(slot_ids)))


def unreserve(slot_ids: Iterable[int]) -> None:
    """Set the clock of a slow site back if its last slot is one of these, was given back, and was reserved alone.

    The next start is then possible in a minute, instead of after an interval. May be called twice.
    """
    if ids := list(slot_ids):
        UNRESERVE(slots=ids, retry=RETRY)


def hand_back(slot_ids: Sequence[int], after_s: float) -> None:
    """Give the last slots of a run back before their time. Their holder must start nothing in the run any more.

    The site is free again `after_s` seconds from now, if nothing was reserved behind the run. May be called twice.
    """
    HAND_BACK(slots=list(slot_ids), after=after_s)


def finish(*slot_ids: int) -> None:
    """Record that the slots were used; may be called twice."""
    FINISH(slots=list(slot_ids))


def note_answers(slot_ids: Iterable[int]) -> None:
    """Record that the sites have answered the starts in these slots, so that they are silent no more.

    An answer to a start that was reserved before the site's last refusal changes nothing. May be called twice.
    """
    if ids := list(slot_ids):
        NOTE_ANSWERS(slots=ids)


def estimate(site: str) -> float:
    """Return the seconds until the next slot; infinite while the site is paused until resumed.

    Reserves nothing; 0 for an idle or unknown site.
    """
    site = site_names.canonical(site)
    wait_s = wait_at(site, 1)
    if wait_s is None and (known := known_sites({site})):
        wait_s = wait_at(known[site].name, 1)
    return wait_s or 0.0


def wait_at(site: str, count: int = 1, late_s: float = 0.0) -> float | None:
    """Return the seconds until a reservation at the site of this name would start; None if there is no such site."""
    parameters = {
        "site": site,
        "count": count,
        "forever": PAUSED_FOREVER,
        "added_grace": _added_grace_s() + late_s,
    }
    wait_s = ESTIMATE(**parameters)
    return wait_s[0] if wait_s else None


def _added_grace_s() -> float:
    return OWN_ROUND_TRIPS * round_trips.added_grace_s(round_trips.of_process.expected_s())


def _belongs_to(host: str, site: str) -> bool:
    """Return whether the host belongs to the site, now that slots are committed; a later split recalls them."""
    known = known_sites({host}).get(host)
    return known is not None and known.name == site


def _covered_or_created(host: str) -> str:
    """Return the name of the site that covers the host; if there is none, the host's own site is created."""
    if known := known_sites({host}):
        return known[host].name
    create_sites([host])
    return host


def purge(older_than: timedelta, *, within_s: float = math.inf) -> int:
    """Delete the slots whose start is longer ago than `older_than`, in short batches; returns their number.

    After `within_s` seconds no other batch begins: the next call deletes the rest.
    """
    deleted, after = 0, 0
    give_up_at = clock.now() + within_s
    more: bool | None = True
    while more:
        parameters = {"older_than": older_than.total_seconds(), "batch": PURGE_BATCH, "after": after}
        [batch] = PURGE_SLOTS(**parameters)
        deleted += batch.deleted
        after, more = batch.last or after, batch.more and clock.now() < give_up_at
    return deleted
