"""What the statements that change a site return."""

from datetime import datetime
from typing import NamedTuple


class HeldSite(NamedTuple):
    """A site whose row is locked: the site to be changed, or a site above it that covers subdomains."""

    id: int
    name: str


class RecalledSite(NamedTuple):
    """A site whose slots were recalled, its clock, and whether this clock is farther ahead than the rate needs."""

    id: int
    next_start: datetime
    is_reserved_ahead: bool


class ChangedSite(NamedTuple):
    """A site that was created or changed, its clock, and whether recalled slots left it farther ahead than needed."""

    id: int
    next_start: datetime
    is_reserved_ahead: bool | None  # None: it was created


class BackedOffSite(NamedTuple):
    """A site at which nothing starts for some time."""

    id: int
    wait_s: float
