"""Counts e-mails by state and by kind, at a cost that does not grow with the table."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import transaction

from weir.postgres import planner
from weir.postgres.statements import Statement
from weir.workers.mail import kinds
from weir.workers.mail.transports import relays

MOST: Final = 10_000  # e-mails that are counted, at most: this number means "or more"
MOST_SENT: Final = 100_000  # sent e-mails of a period that are counted, at most, of all kinds together
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


class States(NamedTuple):
    """The number of e-mails in each state, each up to MOST. Sent e-mails, which are nearly all, are not counted."""

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
    """The numbers of e-mails that were sent in a period that ends now."""

    by_kind: Mapping[str, int]
    or_more: bool  # MOST_SENT were counted, and the count stopped: any number in by_kind may be higher

    @property
    def number(self) -> int:
        """The number for all kinds together."""
        return sum(self.by_kind.values())


class _OfKind(NamedTuple):
    kind: str
    number: int


class _KindRow(NamedTuple):
    """One row of `kinds`."""

    kind: str
    is_registered: bool  # by an installed app
    paused_at: datetime | None
    who: str  # who has paused the kind
    why: str
    waiting: int
    unknown: int
    failed: int


KINDS = Statement("kinds", row=_KindRow, commits=False)
SENT = Statement("sent", row=_OfKind, commits=False)
STATES = Statement("states", row=States, commits=False)


class KindNumbers(NamedTuple):
    """A kind of e-mail, with the numbers of its e-mails, each up to MOST, and of those that were sent."""

    kind: str
    is_registered: bool  # by an installed app
    paused_at: datetime | None
    who: str  # who has paused the kind
    why: str
    waiting: int
    unknown: int
    failed: int
    sent_hour: int  # in the last hour
    sent_hour_or_more: bool
    sent_day: int
    sent_day_or_more: bool
    relays: list[str]  # the relays that its e-mails use, the first choice first


def sent(within: timedelta) -> Sent:
    """Count the e-mails that were sent in the last `within`, and have not come back since."""
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
    """Return all kinds with their numbers: registered kinds, paused kinds, and kinds that have e-mails."""
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
