"""Reconciliation: finds numbers that are wrong, by whatever cause, and repairs them.

The schedule starts a pass every ten seconds; one runs at a time. Each pass looks at

1. users with a doubt: a delta is known to be missed or late;
2. users whose notifications changed lately: their process may have died before it sent the delta;
3. the next users of the *full scan*, which goes through all users, slice by slice, and then begins anew. Each pass
   scans for a limited time. This finds everything else in a known time: rows deleted right before a crash, changes by
   raw SQL, keys that Redis evicted.

A Redis that lost its memory, or came back older than it was, is recognised by its incarnation and the server's run.
Readers stop to trust it at once, or after the next pass has begun. The passes then scan for longer, until a whole full
scan makes it trusted again.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import NamedTuple

import structlog

from notifications import counters, drift, flush
from notifications.models import Reconciliation
from postgres import statements

LEASE_S = 15.0  # longer than most passes take; after a kill no pass runs for so long
SETTLED_S = 30.0  # age at which changes are looked at; longer transactions are left to the full scan
SCAN_S, HURRIED_SCAN_S = 0.2, 4.0  # time a pass scans, where Redis is trusted and where it is not
AT_ONCE = 20_000  # doubts, changes of a page, users of a slice
ROWS_AT_ONCE = 500_000  # unread rows of a slice
MOST_USERS = 30_000  # of each kind in one pass, so that it ends before its lease does
FIRST_USER, LAST_USER = -(2**63), 2**63 - 1
SHOWN = 20  # users in a line of the log

log = structlog.get_logger(__name__)
_query = partial(statements.run, "notifications")


class BegunPass(NamedTuple):
    """How far the last pass came, and the lease of this one."""

    trusted: bool
    changes_until: datetime
    scanned_until: int
    lease_until: datetime


class OldestDoubt(NamedTuple):
    """A user whose number may be wrong, and since when."""

    user_id: int
    noted_at: datetime


class ChangedUsers(NamedTuple):
    """The users of some changes, which followed each other, how many these were, and the time of the last one."""

    changed_at: datetime | None
    changes: int
    users: list[int]


class SliceEnd(NamedTuple):
    """The last user of a slice; None where the slice has all that are left."""

    last_user: int | None


class ScannedSlice(NamedTuple):
    """How many users a slice has, and those whose stored number differs from their rows; None where there is none."""

    users: int
    differing: list[int] | None


class FinishedPass(NamedTuple):
    """Whether Redis is trusted from now on, and how long the last whole full scan took."""

    trusted: bool
    scan_took: timedelta | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PassReport:
    """What one pass saw and did."""

    looked_at: int  # users
    repaired: dict[int, int]  # by how much, by user
    doubtful: int  # users who changed too fast to decide; the next pass looks at them
    trusted: bool  # Redis' deltas are complete
    scan_took: timedelta | None  # the last whole full scan


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slice:
    """Some users who follow each other: the last one, how many, and whose stored numbers differ from their rows."""

    last_user: int
    users: int
    differing: list[int]


def run_pass() -> PassReport | None:
    """Look at users whose number may be wrong, and repair it; return None where another process runs a pass.

    Takes a fraction of a second where nothing is wrong, and some seconds otherwise. Raises `counters.Unreachable`, and
    database errors; the next pass then begins where this one did.
    """
    incarnation, server_run = _recognise_redis()
    begun = _begin(incarnation, server_run)
    if not begun:
        return None
    if not begun.trusted:
        flush.refuse_before(counters.first_epoch(incarnation))
    doubts = {row.user_id: row.noted_at for row in _query("doubts/oldest", {"most": AT_ONCE}, row=OldestDoubt)}
    changed, changes_until = _changed(begun.changes_until)
    differing, scanned_until = _scan(begun.scanned_until, SCAN_S if begun.trusted else HURRIED_SCAN_S)
    users = {*doubts, *changed, *differing}
    repaired, unsure = _repair(users)
    looked_into = [user_id for user_id in doubts if user_id not in unsure]
    _query("doubts/clear", {"users": looked_into, "noted": [doubts[user_id] for user_id in looked_into]})
    finished = _finish(incarnation, begun.lease_until, changes_until, scanned_until)
    return PassReport(
        looked_at=len(users),
        repaired=repaired,
        doubtful=len(unsure),
        trusted=bool(finished and finished.trusted),
        scan_took=finished.scan_took if finished else None,
    )


def reconcile_users(
    user_ids: Iterable[int] | None = None,
    *,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _users: None,
    on_drift: Callable[[int, int], None] = lambda _user, _drift: None,
    on_undecided: Callable[[Collection[int]], None] = lambda _users: None,
) -> dict[int, int]:
    """Compare these users' numbers, or all users', with their rows now; repair and return the drifts, by user.

    A user who changes too fast to decide is noted as a doubt, for the next pass. `dry_run` changes nothing.
    `on_progress` is called with the number of users that were compared since the last call, `on_drift` with each user
    and drift, `on_undecided` with users who change too fast, also where `dry_run` notes no doubt. Raises
    `counters.Unreachable`, and database errors.
    """
    incarnation, _ = _recognise_redis()
    if not dry_run:
        flush.refuse_before(counters.first_epoch(incarnation))
    drifts: dict[int, int] = {}

    def repair(users: Collection[int]) -> None:
        found, undecided = _repair(users, dry_run=dry_run)
        for user_id, wrong_by in found.items():
            on_drift(user_id, wrong_by)
        on_undecided(undecided)
        drifts.update(found)

    waiting: list[int] = []
    for part in _all_of(user_ids):
        waiting += part.differing
        if len(waiting) >= AT_ONCE:
            repair(waiting)
            waiting = []
        on_progress(part.users)
    repair(waiting)
    return drifts


def _repair(user_ids: Collection[int], *, dry_run: bool = False) -> tuple[dict[int, int], set[int]]:
    """Return the drifts that were (or would be) repaired, by user, and the users who have (or would have) a doubt."""
    seen = drift.look(user_ids)
    standing, unsure = drift.stands(seen.differing)
    unsure |= seen.moving
    if dry_run:
        return {wrong.user_id: wrong.drift for wrong in standing}, unsure
    repaired = drift.repair(standing) if standing else set()
    unsure |= {wrong.user_id for wrong in standing} - repaired
    if unsure:
        _query("doubts/note", {"users": list(unsure)})
    drifts = {wrong.user_id: wrong.drift for wrong in standing if wrong.user_id in repaired}
    if drifts:
        log.warning("unread_drift_repaired", users=len(drifts), first=dict(islice(drifts.items(), SHOWN)))
    return drifts, unsure


def _recognise_redis() -> tuple[str, str]:
    """Return Redis' incarnation, a new one if the server started again since the last pass, and the server's run."""
    incarnation = counters.open_epoch(flush.highest_epoch())
    server_run = counters.server_run()
    known = Reconciliation.objects.first()
    if known and known.incarnation == incarnation and known.server_run != server_run:
        incarnation = counters.open_epoch(flush.highest_epoch(), replacing=incarnation)
    return incarnation, server_run


def _begin(incarnation: str, server_run: str) -> BegunPass | None:
    parameters = {
        "incarnation": incarnation,
        "server_run": server_run,
        "settled": SETTLED_S,
        "first_user": FIRST_USER,
        "lease": LEASE_S,
    }
    rows = _query("reconcile/begin_pass", parameters, row=BegunPass)
    return rows[0] if rows else None


def _finish(
    incarnation: str, lease_until: datetime, changes_until: datetime, scanned_until: int
) -> FinishedPass | None:
    scan_done = scanned_until == LAST_USER
    parameters = {
        "changes_until": changes_until,
        "scanned_until": FIRST_USER if scan_done else scanned_until,
        "scan_done": scan_done,
        "incarnation": incarnation,
        "lease_until": lease_until,
    }
    rows = _query("reconcile/finish_pass", parameters, row=FinishedPass)
    return rows[0] if rows else None


def _changed(after: datetime) -> tuple[set[int], datetime]:
    """Return the users whose notifications changed after this time, and the time up to which changes were read."""
    users: set[int] = set()
    while len(users) < MOST_USERS:
        place = {"after": after, "settled": SETTLED_S, "most": AT_ONCE}
        [page] = _query("reconcile/changed", place, row=ChangedUsers)
        users.update(page.users)
        after = page.changed_at or after
        if page.changes < AT_ONCE:
            break
    return users, after


def _scan(after: int, seconds: float) -> tuple[list[int], int]:
    """Compare the users after this one for so long; return those whose numbers differ, and the last one compared."""
    differing: list[int] = []
    give_up_at = time.monotonic() + seconds
    for part in _slices(after):
        differing += part.differing
        if time.monotonic() > give_up_at or len(differing) >= MOST_USERS:
            break
    return differing, part.last_user


def _all_of(user_ids: Iterable[int] | None) -> Iterator[_Slice]:
    if user_ids is None:
        yield from _slices(FIRST_USER)
    else:
        users = list(dict.fromkeys(user_ids))
        yield _Slice(last_user=LAST_USER, users=len(users), differing=users)


def _slices(after: int) -> Iterator[_Slice]:
    """Go through all users after this one, in order, in at least one slice.

    A live delta can hide a drift, where both together are 0. So every user who has one counts as differing.
    """
    live = counters.users()
    while after < LAST_USER:
        sizes = {"users": AT_ONCE, "rows": ROWS_AT_ONCE}
        [bound] = _query("reconcile/slice", {"after": after, **sizes}, row=SliceEnd)
        until = LAST_USER if bound.last_user is None else bound.last_user
        [row] = _query("reconcile/scan", {"after": after, "until": until}, row=ScannedSlice)
        before, live = live, counters.users()
        differing = {user_id for user_id in before | live if after < user_id <= until}.union(row.differing or ())
        yield _Slice(last_user=until, users=row.users, differing=list(differing))
        after = until
