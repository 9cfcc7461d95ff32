"""Lists e-mails page by page: those of a state, of a kind, or to an address. Each of these filters has an index.

If a list has two filters, an index usually serves only one of them. Then PostgreSQL looks at LOOKED_AT e-mails for a
page, at most. Such a page may have fewer e-mails than others, and says so; the next page begins where it ended.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from weir.workers import cursors
from weir.workers.mail.models import LOWER_RECIPIENT, Email
from weir.workers.mail.phases import UNSENT, EmailState
from weir.workers.mail.reports import searching

A_PAGE: Final = 100
LOOKED_AT: Final = 5_000  # e-mails for one page; each may have to be read from another place on a disk
LARGEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailFilters:
    """Which e-mails are wanted: their state, their kind, and how their address begins. "" selects any.

    With `within`, only those that ended within this time before now are wanted.
    """

    state: str = ""
    kind: str = ""
    to: str = ""
    within: timedelta | None = None


Place = tuple[
    Any, ...
]  # an e-mail's place in a list: its id, preceded by its value in the list's column if that is another column


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
    """Return up to A_PAGE e-mails after the cursor. Reads only. Raises BadCursor."""
    last = _last_looked_at(wanted, cursor)
    emails = _after(listed(wanted), wanted, cursor)
    found = list((_until(emails, wanted, last) if last else emails)[: A_PAGE + 1])
    shown = found[:A_PAGE]
    if len(found) > A_PAGE:
        return EmailsPage(shown, _cursor(_place(shown[-1], wanted)))
    if last is None:
        return EmailsPage(shown, "")
    return EmailsPage(shown, _cursor(last), LOOKED_AT if len(shown) < A_PAGE else None)


def _last_looked_at(wanted: EmailFilters, cursor: str) -> Place | None:
    """Return the last place that a page may look at; None if the list ends before, or one index serves all filters.

    Except for addresses, the query asks only for columns that are in the index.
    """
    if (served := _served(wanted)) == wanted:
        return None
    column = _column(wanted)
    places = _after(listed(served), served, cursor).values_list(*(["pk"] if column == "-pk" else [column, "pk"]))
    return places[LOOKED_AT - 1 : LOOKED_AT].first()


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


def _place(email: Email, wanted: EmailFilters) -> Place:
    column = _column(wanted)
    return (email.pk,) if column == "-pk" else (getattr(email, column), email.pk)


def _cursor(place: Place) -> str:
    return cursors.encode([value.isoformat() if isinstance(value, datetime) else value for value in place])


def _after(emails: QuerySet[Email], wanted: EmailFilters, cursor: str) -> QuerySet[Email]:
    if not cursor:
        return emails
    is_newest_first = _column(wanted) == "-pk"
    match cursors.decode(cursor):
        case [int(pk)] if is_newest_first and abs(pk) <= LARGEST_ID:
            return emails.filter(pk__lt=pk)
        case [str(text), int(pk)] if not is_newest_first and abs(pk) <= LARGEST_ID:
            column = _column(wanted)
            place = text if wanted.to else _moment(text)
            return emails.filter(
                Q(**{f"{column}__gt": place}) | Q(**{column: place, "pk__gt": pk}), **{f"{column}__gte": place}
            )
    raise cursors.BadCursor


def _until(emails: QuerySet[Email], wanted: EmailFilters, last: Place) -> QuerySet[Email]:
    """Return the e-mails up to the last place."""
    *values, pk = last
    if not values:
        return emails.filter(pk__gte=pk)
    [place], column = values, _column(wanted)
    return emails.filter(
        Q(**{f"{column}__lt": place}) | Q(**{column: place, "pk__lte": pk}), **{f"{column}__lte": place}
    )


def _column(wanted: EmailFilters) -> str:
    """Return the first column by which the list is ordered."""
    return "lower" if wanted.to else _order(wanted)[0]


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # not all time zones have the first and the last day
        raise cursors.BadCursor from error
    raise cursors.BadCursor
