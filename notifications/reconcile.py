"""Reconciliation: finds numbers that are wrong, for whatever reason, and repairs them.

The schedule starts a pass every ten seconds; only one pass runs at a time. Each pass takes users from three sources:

1. users with a doubt, because a delta was missed or late (`reconciliation.doubts`);
2. users whose notifications changed lately, because the process may have died before it sent the delta
   (`reconciliation.changed`);
3. the next users of the full scan, which goes through all users, slice by slice, and then begins anew
   (`reconciliation.full_scan`). Each pass scans for a limited time. In a known time, the full scan finds all other
   drift: from rows that were deleted right before a crash, changes by raw SQL, and keys that Redis evicted.

However many rows one statement changed, a source yields users in pages of limited size. Its progress is stored after
each page or, if users differ, once the users of all pages until then have been judged (`reconciliation.repairs`).

If there are more changes than a pass has time for, the pass scans for longer. When a full scan ends, it has looked at
all users. The source of changes then goes on from the time at which that scan began.

A Redis that lost its memory, or came back older than it was, is recognised by its incarnation and the server's run.
Readers stop trusting this Redis immediately, or when the next pass has begun. The passes then scan for longer, until a
whole full scan makes Redis trusted again.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db.models.functions import Now

from weir.logs.loggers import get_logger
from weir.notifications import counters, flush, user_keys, watching
from weir.notifications.models import Reconciliation
from weir.notifications.reconciliation import changed, doubts, full_scan
from weir.notifications.reconciliation.lease import Lease, Lost
from weir.notifications.reconciliation.page import Pages, UserPage
from weir.notifications.reconciliation.repairs import JudgedUsers, Repaired, Repairs
from weir.notifications.user_keys import UserKey

SCAN_S, HURRIED_SCAN_S = 0.5, 8.0  # how long a pass scans; the second, if changes are left, or Redis is not trusted
REST_S = 10.0  # how long a pass takes users with doubts, and then changed users; the next pass takes the others

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassReport:
    """What one pass saw and did."""

    looked_at: int = 0  # users
    repaired: Repaired = field(default_factory=Repaired)
    doubtful: int = 0  # users who differ, and changed too fast to decide; the next pass looks at them
    trusted: bool = False  # Redis' deltas are complete
    scan_took: timedelta | None = None  # how long the last whole full scan took
    overtaken: bool = False  # the pass lost its lease to another pass, and stopped

    def plus(self, judged: JudgedUsers) -> "PassReport":
        """Return the report with these users added."""
        return replace(
            self, repaired=self.repaired.plus(judged.repaired), doubtful=self.doubtful + len(judged.doubtful)
        )


def run_pass() -> PassReport | None:
    """Look at users whose numbers may be wrong, and repair these; return None if another process is running a pass.

    Takes a fraction of a second if no number is wrong, and half a minute if very many are. Raises
    `counters.RedisUnreachable`, and database errors. After an error, the next pass goes on after the judged users.
    """
    incarnation, server_run = _recognise_redis()
    if not (lease := Lease.begin(incarnation, server_run, changed.SETTLED_S)):
        return None
    repairs = Repairs(incarnation=incarnation, keep=lease.keep, store=lease.store, doubts_moving=not lease.trusted)
    report = PassReport()
    try:
        if not lease.trusted:
            flush.refuse_before(counters.first_epoch(incarnation))
        for judged in repairs.judge_all(_of_pass(lease)):
            report = report.plus(judged)
        lease.end()
    except counters.RedisUnreachable:
        lease.give_up()
        raise
    except Lost:
        log.warning("unread_pass_overtaken")
        return replace(report, looked_at=repairs.looked_at, overtaken=True)
    return replace(report, looked_at=repairs.looked_at, trusted=lease.trusted, scan_took=lease.scan_took)


def _of_pass(lease: Lease) -> Pages:
    yield from _within(REST_S, doubts.pages())
    no_change_is_left = yield from _within(REST_S, changed.pages(lease.cursors))
    scan_s = SCAN_S if lease.trusted and no_change_is_left else HURRIED_SCAN_S
    yield from _within(scan_s, full_scan.pages(lease.cursors.scanned_until))


def _within(seconds: float, pages: Pages) -> Generator[UserPage, None, bool]:
    """Yield at least one page, and further ones until this time has passed, which includes the work on the pages.

    Returns whether all pages were yielded.
    """
    give_up_at = time.monotonic() + seconds
    for page in pages:
        yield page
        if time.monotonic() > give_up_at:
            return False
    return True


def reconcile_users(
    user_ids: Iterable[UserKey] | None = None,
    *,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _users: None,
    on_drift: Callable[[UserKey, int], None] = lambda _user, _drift: None,
    on_undecided: Callable[[Collection[UserKey]], None] = lambda _users: None,
) -> Repaired:
    """Repair the unread numbers that differ from the rows; either for these users, or for all (None).

    Returns how many numbers were repaired, and the first of them. Raises ValueError for a value that cannot be a user's
    key, RedisUnreachable, and database errors.

    A user whose number differs, but changes too fast to decide, becomes a doubt, for the next pass. `dry_run` changes
    nothing. `on_progress` is called with the number of users that were compared since its last call, `on_drift` with
    each user whose number drifted and by how much, and `on_undecided` with users whose numbers change too fast.
    """
    incarnation, _ = _recognise_redis()
    if not dry_run:
        flush.refuse_before(counters.first_epoch(incarnation))
    repaired = Repaired()
    pages = full_scan.pages() if user_ids is None else _pages_of(user_ids)
    repairs = Repairs(incarnation=incarnation, dry_run=dry_run)
    for judged in repairs.judge_all(_told(pages, on_progress)):
        for user_id, wrong_by in judged.repaired.items():
            on_drift(user_id, wrong_by)
        on_undecided({*judged.doubtful, *judged.moving})
        repaired = repaired.plus(judged.repaired)
    return repaired


def distrust() -> None:
    """Make all readers count rows until a full scan has compared all users: PostgreSQL has forgotten what it stored.

    The next pass treats Redis as another run of the server, drops its deltas, and begins a full scan. A pass that is
    running now loses its lease, and changes nothing more, because its full scan began before this call.
    """
    Reconciliation.objects.update(trusted=False, server_run="", scanned_until=None, lease_until=Now())
    watching.changed()


def _pages_of(user_ids: Iterable[UserKey]) -> Pages:
    users = user_keys.distinct(user_ids)
    for start in range(0, len(users), counters.AT_ONCE):
        part = users[start : start + counters.AT_ONCE]
        yield UserPage(users=part, compared=len(part))


def _told(pages: Pages, on_progress: Callable[[int], None]) -> Pages:
    for page in pages:
        yield page
        on_progress(page.compared)


def _recognise_redis() -> tuple[str, str]:
    """Return Redis' incarnation and the server's run. If the server started after the last pass, the former is new."""
    incarnation = counters.open_epoch(flush.highest_epoch())
    known = Reconciliation.objects.first()
    server_run = counters.server_run(known.server_run if known else "")
    if known and known.incarnation == incarnation and known.server_run != server_run:
        incarnation = counters.open_epoch(flush.highest_epoch(), replacing=incarnation)
    return incarnation, server_run
