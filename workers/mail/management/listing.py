"""`manage.py emails list` and `show`."""

from typing import Any

from django.core.management.base import CommandParser

from weir.conf.texts.suggestions import no_such_word
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import from_zero, one_of, row_id, utf8
from weir.workers.mail import kinds
from weir.workers.mail.management import email_text
from weir.workers.mail.models import Email, RelayHold
from weir.workers.mail.phases import EmailState
from weir.workers.mail.reports import counts, listing
from weir.workers.mail.reports.why import why

LISTED = 100


class List(Subcommand):
    """The e-mails of one state, of a kind, or to an address."""

    name = "list"
    help = "count the e-mails by state, and list those of a state, of a kind, or to an address"
    description = (
        "Count the e-mails by state, and those that were sent in the last hour and day, and list some, the oldest "
        "first: those that are unknown, or of another state; with --to, those of all states, in the order of addresses."
    )
    examples = (
        "list",
        "list --state failed --kind order.shipped --limit 0 --json",
        "list --to kim@example.com",
        "list --to kim --state sent",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--state",
            type=one_of(EmailState, "state"),
            metavar="STATE",
            help=f"which to list: {', '.join(EmailState)} (default {EmailState.UNKNOWN.value}); "
            "of `sent`, the newest first",
        )
        parser.add_argument("--kind", type=utf8, metavar="KIND", help="of this kind only")
        parser.add_argument("--to", type=utf8, metavar="ADDRESS", help="to this address, or to those that begin so")
        parser.add_argument(
            "--limit", type=from_zero, default=LISTED, metavar="N", help=f"the first N; 0 = all (default {LISTED})"
        )

    def run(self, *, state: str | None, kind: str | None, to: str | None, limit: int, **_options: Any) -> Result:
        if kind is not None:
            refuse_unknown(kind)
        chosen = state or (None if to else EmailState.UNKNOWN.value)
        wanted = listing.EmailFilters(state=chosen or "", kind=kind or "", to=to or "")
        emails = list(listing.listed(wanted)[: limit + 1 if limit else None])
        shown = emails[:limit] if limit else emails
        numbers = counts.by_state()._asdict()
        hour, day = counts.sent(counts.HOUR), counts.sent(counts.DAY)
        named = email_text.numbers_text(numbers, hour, day)
        holds = list(RelayHold.objects.order_by("relay"))
        has_more = len(shown) < len(emails)
        return Result(
            text=lambda: email_text.list_text(shown, named, holds, has_states=chosen is None, has_more=has_more),
            data={
                "counts": numbers,
                "counted_to": counts.MOST,
                "sent": {"last_hour": email_text.sent_data(hour), "last_day": email_text.sent_data(day)},
                "held_relays": [email_text.hold_data(hold) for hold in holds],
                "state": chosen,
                "has_more": has_more,
                "emails": [email_text.as_data(email) for email in shown],
            },
        )


class Show(Subcommand):
    """All about one e-mail."""

    name = "show"
    help = "show everything about one e-mail: why it waits, and what was said about it"
    examples = ("show 17", "show 17 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")

    def run(self, **options: Any) -> Result:
        email = listing.listed(listing.EmailFilters()).filter(pk=options["id"]).first()
        if email is None:
            raise ValueError(f"There is no e-mail {options['id']}.")
        of = email_text.details(email, why(email))
        return Result(text=lambda: email_text.as_text(of), data=of)


def refuse_unknown(kind: str) -> None:
    """Raise ValueError, with a similar kind if there is one, for a kind that no app registers and no e-mail has."""
    if kind in kinds.names():
        return
    # Ask for the first kind from this kind on: for this order PostgreSQL has only one index to read.
    stored = Email.objects.filter(kind__gte=kind).order_by("kind", "pk").values_list("kind", flat=True).first()
    if stored != kind:
        raise ValueError(f"{no_such_word(kind, kinds.names(), 'kind')}.")
