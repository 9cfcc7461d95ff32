"""The state of unread numbers, for people and for programs, read at a cost that does not grow with the tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from weir.notifications.user_keys import UserKey
from weir.postgres import planner
from weir.postgres.statements import Statement

MOST: Final = 10_000  # counting stops here: MOST + 1 means more
LAST_REPAIRS: Final = 20


class RepairedBatch(NamedTuple):
    """Numbers that were repaired together."""

    id: int
    repaired_at: datetime
    users: int
    drift: int  # the sum of the repaired drifts, without signs


class _Numbers(NamedTuple):
    """What the statement `unread_status` reads."""

    now: datetime
    trusted: bool | None
    doubts: int
    oldest_doubt_s: float | None
    flushed_s: float | None
    scanned_until: UserKey | None
    first_user: UserKey | None
    last_user: UserKey | None
    scan_ended_at: datetime | None
    scan_took_s: float | None
    read_marks: int
    forgotten_users: int
    repaired_users: int


REPAIRS = Statement("repairs", row=RepairedBatch, commits=False)
UNREAD_STATUS = Statement("unread_status", row=_Numbers, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadStatus:
    """The state of unread numbers. An age is None if there is nothing to measure."""

    now: datetime
    trusted: bool | None  # None: reconciliation has never run
    doubts: int  # as in read_marks and forgotten_users, MOST + 1 means more than MOST
    oldest_doubt_s: float | None
    flushed_s: float | None  # the age of the last flush that brought deltas to PostgreSQL
    scan_share: float | None  # the share of users that the full scan has compared, estimated from keys; see scan_share
    scan_ended_at: datetime | None  # when the last whole full scan ended
    scan_took_s: float | None
    read_marks: int  # marks of which some rows may still lack `read_at`
    forgotten_users: int  # users of whom something may be left
    repaired_users: int  # how many numbers were repaired since the first pass; only grows
    repairs: Sequence[RepairedBatch]  # the last repairs, the newest first


def unread_status() -> UnreadStatus:
    """Return the state of unread numbers. Reads only, through indexes. Raises database errors."""
    with transaction.atomic():
        planner.in_index_order()
        [seen] = UNREAD_STATUS(most=MOST)
        repairs = REPAIRS(most=LAST_REPAIRS)
    return UnreadStatus(
        now=seen.now,
        trusted=seen.trusted,
        doubts=seen.doubts,
        oldest_doubt_s=seen.oldest_doubt_s,
        flushed_s=seen.flushed_s,
        scan_share=None if seen.trusted is None else scan_share(seen.scanned_until, seen.first_user, seen.last_user),
        scan_ended_at=seen.scan_ended_at,
        scan_took_s=seen.scan_took_s,
        read_marks=seen.read_marks,
        forgotten_users=seen.forgotten_users,
        repaired_users=seen.repaired_users,
        repairs=repairs,
    )


def scan_share(until: UserKey | None, first: UserKey | None, last: UserKey | None) -> float | None:
    """Return the place of a full scan between the first and the last key, from 0 to 1.

    Returns None if keys are texts, or if no user has a number. If there are gaps between the keys, the share of users
    is only estimated.
    """
    if first is None or last is None or isinstance(first, str):
        return None
    if until is None:
        return 0.0
    low, here, high = _place(first), _place(until), _place(last)
    return min(1.0, max(0.0, (here - low) / (high - low))) if high > low else 1.0


def _place(key: UserKey) -> int:
    return key.int if isinstance(key, UUID) else int(key)
