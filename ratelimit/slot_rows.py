"""The rows that the statements about slots return."""

from datetime import datetime
from typing import NamedTuple


class ReservedRow(NamedTuple):
    """A slot that was reserved, or taken, with the values of its run; durations as in docs/explanation/sql.md."""

    id: int
    wait_s: float
    use_until_s: float
    interval_s: float
    burst: int
    grace_s: float
    arrival_s: float
    was_split: bool
    server_s: float


class Recall(NamedTuple):
    """Void slots: all slots of a site up to `last_slot`, or the one `passed_on`, which another fetch has got.

    The row of site 0, which does not exist, tells whether the database is a standby.
    """

    site_id: int
    at: datetime  # by the database's clock; tells two recalls apart: a slot may be passed on again
    last_slot: int | None = None
    passed_on: int | None = None
    is_standby: bool = False


class PurgedBatch(NamedTuple):
    """How many slots were deleted, the last one that was looked at, and whether later ones may be old."""

    deleted: int
    last: int | None
    more: bool | None
