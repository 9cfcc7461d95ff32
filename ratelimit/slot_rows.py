"""The rows that the statements about slots return (sql/slots/)."""

from datetime import datetime
from typing import NamedTuple


class ReservedRow(NamedTuple):
    """A slot that was reserved, or taken, with what holds for its run; durations as in docs/explanation/sql.md."""

    id: int
    wait_s: float
    use_until_s: float
    interval_s: float
    burst: int
    grace_s: float
    arrival_s: float
    was_split: bool
    server_s: float


class StandingSlot(NamedTuple):
    """A slot that no recall has made void."""

    id: int


class RecallRow(NamedTuple):
    """A recall; the row without a site tells whether this database is a standby."""

    site_id: int | None
    slot_id: int | None
    recalled_slot: int | None
    at: datetime | None
    is_standby: bool | None


class Estimate(NamedTuple):
    """Until a reservation that was made now would start."""

    wait_s: float


class PurgedBatch(NamedTuple):
    """How many slots were deleted, the last one that was looked at, and whether later ones may be old."""

    deleted: int
    last: int | None
    more: bool | None
