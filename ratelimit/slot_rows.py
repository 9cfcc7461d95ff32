"""The rows that the statements about slots return."""

from datetime import datetime
from typing import NamedTuple


class ReservedRow(NamedTuple):
    """A slot that was reserved or taken, with the values of its run; docs/explanation/sql.md defines the durations."""

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
    """Void slots: all slots of a site up to `last_slot`, or the slot `passed_on`, which now belongs to another fetch.

    There is no site 0: a row with this id only says whether the database is a standby.
    """

    site_id: int
    at: datetime  # on the database's clock; distinguishes two recalls, because a slot may be passed on again
    last_slot: int | None = None
    passed_on: int | None = None
    is_standby: bool = False


class PurgedBatch(NamedTuple):
    """How many slots were deleted, the last slot that was looked at, and whether later slots may be old enough, too."""

    deleted: int
    last: int | None
    more: bool | None
