"""How many e-mails there are, by state and by kind, at a cost that does not grow with the table."""

from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from django.db import transaction

from postgres import planner, statements
from workers.mail import kinds

MOST: Final = 10_000  # e-mails that are counted: a number that is this means "or more"
_query = partial(statements.run_within, "workers.mail.reports")


class States(NamedTuple):
    """E-mails by state, each up to MOST. Those that were sent are not counted: they are nearly all."""

    pending: int
    claimed: int
    sending: int
    failed: int
    unknown: int
    bounced: int
    cancelled: int
    suppressed: int
    expired: int


class KindNumbers(NamedTuple):
    """A kind of e-mail, with numbers up to MOST."""

    kind: str
    is_registered: bool  # by an installed app
    paused_at: datetime | None
    who: str  # has paused it
    why: str
    waiting: int
    unknown: int
    failed: int


def by_state() -> States:
    """Count the e-mails of each state but `sent`."""
    with transaction.atomic():
        planner.by_indexes()
        [numbers] = _query("states", {"most": MOST}, row=States)
    return numbers


def of_kinds() -> list[KindNumbers]:
    """Return all kinds: those that are registered, paused, or have e-mails."""
    with transaction.atomic():
        planner.by_indexes()
        return _query("kinds", {"most": MOST, "registered": kinds.names()}, row=KindNumbers)
