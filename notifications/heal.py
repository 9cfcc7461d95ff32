"""Heal: finds numbers that are wrong, by whatever cause, and repairs them.

Each heal looks at

1. users about whom there is doubt, because a delta is known to be missed or late;
2. users whose notifications changed lately: their process may have died before it sent the delta;
3. the next slice of all users (*scrub*), within a budget of time. That finds the rest in a known time: notifications
   deleted right before a crash, raw SQL, a Redis that evicts.

A Redis that lost its memory, or came back older than it was, is recognised by its incarnation and the server's run.
Readers stop to trust it at once, or within a heal, and scrub hurries through a whole round until it is trusted again.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

import structlog

from notifications import counters, drift, flush
from notifications.models import Healing
from postgres import statements

LEASE_S = 15.0  # longer than a heal takes, mostly; after a kill nobody heals for so long
SETTLED_S = 30.0  # changes are looked at when they are so old: longer transactions are left to scrub
SCRUB_S, HURRIED_SCRUB_S = 0.2, 4.0  # how long one heal scrubs; how long where Redis is not trusted
AT_ONCE = 20_000  # doubts, changes of a page, users of a slice
ROWS_AT_ONCE = 500_000  # unread rows of a slice
MOST_USERS = 30_000  # of each kind in one heal, so that it ends before its lease does
FIRST_USER, LAST_USER = -(2**63), 2**63 - 1
SHOWN = 20  # users in a line of the log

log = structlog.get_logger(__name__)
_query = partial(statements.run, "notifications")


@dataclass(frozen=True, kw_only=True, slots=True)
class HealReport:
    """What one heal saw and did."""

    looked_at: int  # users
    repaired: dict[int, int]  # by how much, by user
    doubtful: int  # users who changed too fast to say; the next heal looks at them
    trusted: bool  # Redis' deltas are complete
    round_took: timedelta | None  # the last whole round over all users


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slice:
    """Some users who follow each other: the last one, how many, and whose stored numbers differ from their rows."""

    last_user: int
    users: int
    differing: list[int]


def heal() -> HealReport | None:
    """Look at who may be wrong and repair it; return None where another heal is at work.

    Takes a fraction of a second where nothing is wrong, and some seconds otherwise. Raises `counters.Unreachable`, and
    database errors; the next heal then begins where this one did.
    """
    incarnation, server_run = _identify()
    begun = _query(
        "begin_heal",
        {
            "incarnation": incarnation,
            "server_run": server_run,
            "settled": SETTLED_S,
            "first_user": FIRST_USER,
            "lease": LEASE_S,
        },
    )
    if not begun:
        return None
    progress = begun[0]
    if not progress.trusted:
        flush.refuse_before(counters.first_epoch(incarnation))
    doubts = {row.user_id: row.noted_at for row in _query("doubts", {"most": AT_ONCE})}
    changed, changes_until = _changed(progress.changes_until)
    differing, scrubbed_until = _scrub(progress.scrubbed_until, SCRUB_S if progress.trusted else HURRIED_SCRUB_S)
    users = {*doubts, *changed, *differing}
    repaired, unsure = _repair(users)
    looked_into = [user_id for user_id in doubts if user_id not in unsure]
    _query("clear_doubts", {"users": looked_into, "noted": [doubts[user_id] for user_id in looked_into]})
    round_done = scrubbed_until == LAST_USER
    finished = _query(
        "finish_heal",
        {
            "changes_until": changes_until,
            "scrubbed_until": FIRST_USER if round_done else scrubbed_until,
            "round_done": round_done,
            "incarnation": incarnation,
            "lease_until": progress.lease_until,
        },
    )
    return HealReport(
        looked_at=len(users),
        repaired=repaired,
        doubtful=len(unsure),
        trusted=bool(finished and finished[0].trusted),
        round_took=finished[0].round_took if finished else None,
    )


def reconcile(
    user_ids: Iterable[int] | None = None,
    *,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _users: None,
    on_drift: Callable[[int, int], None] = lambda _user, _drift: None,
) -> dict[int, int]:
    """Compare these users' numbers, or everybody's, with their rows now; repair and return the drifts, by user.

    Who changes too fast to say is noted as a doubt, for heal. `dry_run` changes nothing. `on_progress` is called with
    the number of users who were compared since the last call, `on_drift` with each user and drift. Raises
    `counters.Unreachable`, and database errors.
    """
    incarnation, _ = _identify()
    if not dry_run:
        flush.refuse_before(counters.first_epoch(incarnation))
    drifts: dict[int, int] = {}

    def repair(users: Collection[int]) -> None:
        found, _ = _repair(users, dry_run=dry_run)
        for user_id, wrong_by in found.items():
            on_drift(user_id, wrong_by)
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
    """Return the drifts that were repaired, by user, and the users about whom there is doubt now."""
    seen = drift.look(user_ids)
    standing, unsure = drift.stands(seen.differing)
    if dry_run:
        return {wrong.user_id: wrong.drift for wrong in standing}, set()
    repaired = drift.repair(standing) if standing else set()
    unsure |= seen.moving | {wrong.user_id for wrong in standing} - repaired
    if unsure:
        _query("note_doubts", {"users": list(unsure)})
    drifts = {wrong.user_id: wrong.drift for wrong in standing if wrong.user_id in repaired}
    if drifts:
        log.warning("unread_drift_repaired", users=len(drifts), first=dict(islice(drifts.items(), SHOWN)))
    return drifts, unsure


def _identify() -> tuple[str, str]:
    """Return Redis' incarnation, a new one if it started again since the last heal, and the server's run."""
    incarnation = counters.open_epoch(flush.highest_epoch())
    server_run = counters.server_run()
    known = Healing.objects.first()
    if known and known.incarnation == incarnation and known.server_run != server_run:
        incarnation = counters.open_epoch(flush.highest_epoch(), replacing=incarnation)
    return incarnation, server_run


def _changed(after: datetime) -> tuple[set[int], datetime]:
    """Return whose notifications changed after this time, and until when changes were taken."""
    users: set[int] = set()
    while len(users) < MOST_USERS:
        page = _query("changed", {"after": after, "settled": SETTLED_S, "most": AT_ONCE})[0]
        users.update(page.users)
        after = page.changed_at or after
        if page.changes < AT_ONCE:
            break
    return users, after


def _scrub(after: int, seconds: float) -> tuple[list[int], int]:
    """Compare users after this one for so long; return whose numbers differ, and the last who was compared."""
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
    """Go through all users after this one, in order; there is one slice at least.

    A live delta can hide a drift: both together may be 0. So whoever has one counts as differing.
    """
    live = counters.users()
    while after < LAST_USER:
        bound = _query("slice", {"after": after, "users": AT_ONCE, "rows": ROWS_AT_ONCE})[0].last_user
        until = LAST_USER if bound is None else bound
        row = _query("scrub", {"after": after, "until": until})[0]
        before, live = live, counters.users()
        differing = {user_id for user_id in before | live if after < user_id <= until}.union(row.differing or ())
        yield _Slice(last_user=until, users=row.users, differing=list(differing))
        after = until
