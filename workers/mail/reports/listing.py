"""Lists e-mails page by page: those of a state, of a kind, or to an address. Each of these filters has an index.

If a list has two filters, an index usually serves only one of them: see ledger/paging.py.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Coalesce, Now

from weir.workers.ledger import paging
from weir.workers.mail.models import LOWER_RECIPIENT, Email
from weir.workers.mail.phases import UNSENT, EmailState
from weir.workers.mail.reports import searching


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailFilters:
    """Which e-mails are wanted: their state, their kind, and how their address begins. "" selects any.

    With `within`, only those that ended within this time before now are wanted.
    """

    state: str = ""
    kind: str = ""
    to: str = ""
    within: timedelta | None = None


class EmailsPage(NamedTuple):
    """A page, and the cursor of the next page, which is "" after the last page."""

    emails: list[Email]
    next: str
    looked_at: int | None = None  # how many e-mails were looked at, if the page is short although the list goes on


def listed(wanted: EmailFilters) -> QuerySet[Email]:
    """Return the e-mails in the order of an index.

    E-mails to an address are ordered by their addresses, unknown e-mails by the time when they were being sent, the
    oldest first. Sent e-mails, those that ended within a time, and lists without a state begin with the newest, all
    others with the oldest. Each e-mail has its age, by the database's clock.
    """
    emails: QuerySet[Email] = Email.objects.all()
    if wanted.state:
        emails = emails.filter(state=wanted.state)
    if wanted.kind:
        emails = emails.filter(kind=wanted.kind)
    if wanted.within:
        emails = emails.filter(ended_at__gt=Now() - wanted.within)
    if wanted.to:
        emails = searching.to(emails, wanted.to).annotate(lower=LOWER_RECIPIENT)
    else:
        emails = emails.order_by(*_order(wanted))
    since = Coalesce(F("sending_since"), F("created_at"))
    return emails.annotate(age=ExpressionWrapper(Now() - since, DurationField()))


def page(wanted: EmailFilters, cursor: str = "") -> EmailsPage:
    """Return up to paging.A_PAGE e-mails after the cursor. Reads only. Raises BadCursor."""
    served = None if (part := _served(wanted)) == wanted else listed(part)
    read = str if wanted.to else paging.moment
    return EmailsPage(*paging.page(listed(wanted), served, _column(wanted), cursor, read))


def _served(wanted: EmailFilters) -> EmailFilters:
    """Return the part of the filters that an index serves in the order of the list."""
    if wanted.to:
        return EmailFilters(to=wanted.to)
    if _is_newest_first(wanted):
        return EmailFilters(kind=wanted.kind)
    is_of_kind = wanted.state in UNSENT and wanted.state != EmailState.UNKNOWN  # index weir_email_unsent_by_kind
    return wanted if is_of_kind else EmailFilters(state=wanted.state)


def _is_newest_first(wanted: EmailFilters) -> bool:
    return wanted.within is not None or wanted.state in {"", EmailState.SENT}


def _order(wanted: EmailFilters) -> tuple[str, ...]:
    if _is_newest_first(wanted):
        return ("-pk",)
    return ("sending_since", "pk") if wanted.state == EmailState.UNKNOWN else ("created_at", "pk")


def _column(wanted: EmailFilters) -> str:
    """Return the first column by which the list is ordered."""
    return "lower" if wanted.to else _order(wanted)[0]
