"""Lists of e-mails, page by page: of one state, of a kind, or to an address. Each has an index."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from workers import cursors
from workers.mail.models import LOWER_RECIPIENT, Email
from workers.mail.phases import State
from workers.mail.reports import searching

A_PAGE: Final = 100
LARGEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which e-mails: of a state, of a kind, and to addresses that begin so; "" where that does not matter."""

    state: str = ""
    kind: str = ""
    to: str = ""


class EmailsPage(NamedTuple):
    """A page, and the cursor of the next one; "" after the last."""

    emails: list[Email]
    next: str


def listed(wanted: Wanted) -> QuerySet[Email]:
    """Return the e-mails in the order of an index: unknown ones by when they were sent, sent ones the newest first.

    Those to an address come in the order of addresses, all others the oldest first. Each has its age, by the database's
    clock.
    """
    emails: QuerySet[Email] = Email.objects.all()
    if wanted.state:
        emails = emails.filter(state=wanted.state)
    if wanted.kind:
        emails = emails.filter(kind=wanted.kind)
    if wanted.to:
        emails = searching.to(emails, wanted.to).annotate(lower=LOWER_RECIPIENT)
    else:
        emails = emails.order_by(*_order(wanted))
    since = Coalesce(F("sending_since"), F("created_at"))
    return emails.annotate(age=ExpressionWrapper(Now() - since, DurationField()))


def page(wanted: Wanted, cursor: str = "") -> EmailsPage:
    """Return up to A_PAGE e-mails after the cursor. Reads only. Raises BadCursor."""
    found = list(_after(listed(wanted), wanted, cursor)[: A_PAGE + 1])
    shown = found[:A_PAGE]
    return EmailsPage(shown, cursors.encode(_place(shown[-1], wanted)) if len(found) > A_PAGE else "")


def _order(wanted: Wanted) -> tuple[str, ...]:
    if wanted.state == State.UNKNOWN:
        return ("sending_since", "pk")
    return ("-pk",) if wanted.state in {"", State.SENT} else ("created_at", "pk")


def _place(email: Email, wanted: Wanted) -> list[object]:
    if wanted.to:
        return [vars(email)["lower"], email.pk]
    name, *_ = _order(wanted)
    return [email.pk] if name == "-pk" else [getattr(email, name).isoformat(), email.pk]


def _after(emails: QuerySet[Email], wanted: Wanted, cursor: str) -> QuerySet[Email]:
    if not cursor:
        return emails
    is_newest_first = not wanted.to and _order(wanted) == ("-pk",)
    match cursors.decode(cursor):
        case [int(pk)] if is_newest_first and abs(pk) <= LARGEST_ID:
            return emails.filter(pk__lt=pk)
        case [str(text), int(pk)] if not is_newest_first and abs(pk) <= LARGEST_ID and "\0" not in text:
            column = "lower" if wanted.to else _order(wanted)[0]
            place = text if wanted.to else _moment(text)
            return emails.filter(
                Q(**{f"{column}__gt": place}) | Q(**{column: place, "pk__gt": pk}), **{f"{column}__gte": place}
            )
    raise cursors.BadCursor


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise cursors.BadCursor from error
    if moment.tzinfo is None:
        raise cursors.BadCursor
    return moment
