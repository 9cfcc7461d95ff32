"""The state of unread numbers, for people and for machines, at a cost that does not grow with the tables."""

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
    drift: int  # the sum of what was added or taken away, without signs


class _Numbers(NamedTuple):
    """What one statement reads."""

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
    """Everything about unread numbers. An age is None if there is nothing whose age it could be."""

    now: datetime
    trusted: bool | None  # None: reconciliation has never run
    doubts: int  # MOST + 1 means more, as with read_marks and forgotten_users
    oldest_doubt_s: float | None
    flushed_s: float | None  # since deltas last came from Redis to PostgreSQL
    scan_share: float | None  # the share of users that the full scan has compared, by their keys; None for text keys
    scan_ended_at: datetime | None  # the last whole full scan
    scan_took_s: float | None
    read_marks: int  # those that wait until `read_at` of all rows that they cover is set
    forgotten_users: int  # of whom something is left
    repaired_users: int  # since the first pass: only grows
    repairs: Sequence[RepairedBatch]  # the last ones, the newest first


def unread_status() -> UnreadStatus:
    """Return everything about unread numbers. Reads only, by indexes; raises database errors."""
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
    """Return where between the first and the last key a full scan is, from 0 to 1.

    None if keys are texts, or if no user has a number. Keys with gaps make it an estimate.
    """
    if first is None or last is None or isinstance(first, str):
        return None
    if until is None:
        return 0.0
    low, here, high = _place(first), _place(until), _place(last)
    return min(1.0, max(0.0, (here - low) / (high - low))) if high > low else 1.0


def _place(key: UserKey) -> int:
    return key.int if isinstance(key, UUID) else int(key)
