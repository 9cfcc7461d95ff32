"""The lease of a pass, and the cursors that say how far reconciliation has come. Both are in one row.

A pass renews its lease before each step. If it finds that another pass has taken the lease, it stops, and changes
nothing more.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from weir.notifications.user_keys import UserKey
from weir.postgres.statements import Statement

LEASE_S = 15.0  # longer than a step takes; after a pass was killed, no other begins for this time


class Lost(Exception):
    """Another pass has taken the lease."""


class BegunPass(NamedTuple):
    """How far the last pass came, and the end of this pass' lease."""

    trusted: bool
    changes_until: datetime
    changes_until_id: int
    scanned_until: UserKey | None
    lease_until: datetime


class KeptLease(NamedTuple):
    """Whether Redis is trusted, how long the last full scan took, how far changes were looked at; the lease's end."""

    trusted: bool
    scan_took: timedelta | None
    changes_until: datetime
    changes_until_id: int
    lease_until: datetime


BEGIN_PASS = Statement("begin_pass", row=BegunPass, commits=True)
KEEP_LEASE = Statement("keep_lease", row=KeptLease, commits=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursors:
    """How far the sources have come. `scanned_until` is None at the beginning of a full scan."""

    changes_until: datetime
    changes_until_id: int
    scanned_until: UserKey | None
    scan_done: bool = False  # a full scan has ended, so changes from before its beginning need no look


@dataclass(kw_only=True, slots=True)
class Lease:
    """The right to run a pass."""

    cursors: Cursors
    trusted: bool
    scan_took: timedelta | None = None
    _settled_s: float  # age at which changes are looked at
    _until: datetime

    @classmethod
    def begin(cls, incarnation: str, server_run: str, settled_s: float) -> Self | None:
        """Take the lease; return None if another process has it."""
        parameters = {
            "incarnation": incarnation,
            "server_run": server_run,
            "settled": settled_s,
            "lease": LEASE_S,
        }
        rows = BEGIN_PASS(**parameters)
        if not rows:
            return None
        [begun] = rows
        cursors = Cursors(
            changes_until=begun.changes_until,
            changes_until_id=begun.changes_until_id,
            scanned_until=begun.scanned_until,
        )
        return cls(cursors=cursors, trusted=begun.trusted, _settled_s=settled_s, _until=begun.lease_until)

    def keep(self) -> None:
        """Renew the lease for LEASE_S, within which the next call must follow. Raises Lost."""
        self._write(self.cursors, LEASE_S)

    def store(self, reached: Mapping[str, Any]) -> None:
        """Record how far the pass has come, as values for fields of Cursors, and renew the lease. Raises Lost."""
        self._write(replace(self.cursors, **reached), LEASE_S)

    def end(self) -> None:
        """Give the lease back. Raises Lost."""
        self._write(self.cursors, 0.0)

    def give_up(self) -> None:
        """Give the lease back, unless it is lost."""
        with suppress(Lost):
            self.end()

    def _write(self, cursors: Cursors, seconds: float) -> None:
        parameters = {
            "changes_until": cursors.changes_until,
            "changes_until_id": cursors.changes_until_id,
            "scanned_until": None if cursors.scan_done else cursors.scanned_until,
            "scan_done": cursors.scan_done,
            "settled": self._settled_s,
            "lease": seconds,
            "lease_until": self._until,
        }
        rows = KEEP_LEASE(**parameters)
        if not rows:
            raise Lost
        [kept] = rows
        self.trusted, self.scan_took, self._until = kept.trusted, kept.scan_took, kept.lease_until
        self.cursors = replace(
            cursors, changes_until=kept.changes_until, changes_until_id=kept.changes_until_id, scan_done=False
        )
