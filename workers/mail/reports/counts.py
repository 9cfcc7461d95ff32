"""How many e-mails there are, by state and by kind, at a cost that does not grow with the table."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import transaction

from weir.postgres import planner
from weir.postgres.statements import Statement
from weir.workers.mail import kinds
from weir.workers.mail.transports import relays

MOST: Final = 10_000  # e-mails that are counted: a number that is this means "or more"
MOST_SENT: Final = 100_000  # e-mails that are counted as sent in a period, of all kinds
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


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


class Sent(NamedTuple):
    """The e-mails that were sent in a period until now."""

    by_kind: Mapping[str, int]
    or_more: bool  # MOST_SENT were counted: there are more, of any kind

    @property
    def number(self) -> int:
        """How many there are of all kinds."""
        return sum(self.by_kind.values())


class _OfKind(NamedTuple):
    kind: str
    number: int


class _KindRow(NamedTuple):
    """One row of `kinds`."""

    kind: str
    is_registered: bool  # by an installed app
    paused_at: datetime | None
    who: str  # has paused it
    why: str
    waiting: int
    unknown: int
    failed: int


KINDS = Statement("kinds", row=_KindRow, commits=False)
SENT = Statement("sent", row=_OfKind, commits=False)
STATES = Statement("states", row=States, commits=False)


class KindNumbers(NamedTuple):
    """A kind of e-mail, with numbers up to MOST, and how many were sent."""

    kind: str
    is_registered: bool  # by an installed app
    paused_at: datetime | None
    who: str  # has paused it
    why: str
    waiting: int
    unknown: int
    failed: int
    sent_hour: int  # in the last hour
    sent_hour_or_more: bool
    sent_day: int
    sent_day_or_more: bool
    relays: list[str]  # the ones that its e-mails go by, in this order


def sent(within: timedelta) -> Sent:
    """Count the e-mails that were sent in the period that ends now, and have not come back since."""
    with transaction.atomic():
        planner.by_indexes()
        found = SENT(within=within, most=MOST_SENT)
    by_kind = {row.kind: row.number for row in found}
    return Sent(by_kind, or_more=sum(by_kind.values()) >= MOST_SENT)


def by_state() -> States:
    """Count the e-mails of each state but `sent`."""
    with transaction.atomic():
        planner.by_indexes()
        [numbers] = STATES(most=MOST)
    return numbers


def of_kinds() -> list[KindNumbers]:
    """Return all kinds: those that are registered, paused, or have e-mails."""
    with transaction.atomic():
        planner.by_indexes()
        found = KINDS(most=MOST, registered=kinds.names())
    hour, day = sent(HOUR), sent(DAY)
    return [
        KindNumbers(
            *row,
            sent_hour=hour.by_kind.get(row.kind, 0),
            sent_hour_or_more=hour.or_more,
            sent_day=day.by_kind.get(row.kind, 0),
            sent_day_or_more=day.or_more,
            relays=[relay.name for relay in relays.of_kind(row.kind)],
        )
        for row in found
    ]
