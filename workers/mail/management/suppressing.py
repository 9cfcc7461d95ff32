"""`manage.py emails suppress`, `unsuppress`, `suppressed` and `forget`."""

from typing import Any

from django.core.management.base import CommandParser

from weir.workers.audit import acting, said
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import at_least_one, row_id, utf8
from weir.workers.mail import addresses, suppression
from weir.workers.mail.actions import addresses as actions
from weir.workers.mail.management import email_text
from weir.workers.mail.models import Suppression

LISTED = 100


class Suppress(Subcommand):
    """Puts an address on the suppression list."""

    name = "suppress"
    help = "put an address on the suppression list: nothing is sent to it"
    examples = ('suppress kim@example.com --why "She asked for it."',)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", type=utf8, metavar="ADDRESS")
        said.add_arguments(parser, wants_reason=True)

    def run(self, *, address: str, who: str | None, why: str, **_options: Any) -> Result:
        address = addresses.canonical(address.strip())
        if not actions.suppress(acting.of_shell(who), address, why=why):
            raise ValueError(f"{address} is on the suppression list already.")
        return Result(text=lambda: f"{address} is not written to any more.", data={"suppressed": address})


class Unsuppress(Subcommand):
    """Takes an address off the suppression list."""

    name = "unsuppress"
    help = "take an address off the suppression list; what was not sent meanwhile stays unsent"
    examples = (
        'unsuppress kim@example.com --why "Her mailbox works again."',
        'unsuppress kim@example.com --kind newsletter.weekly --why "She subscribed again."',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", type=utf8, metavar="ADDRESS")
        only = "instead: send it e-mails of this kind again, from which it has unsubscribed"
        parser.add_argument("--kind", default="", type=utf8, metavar="KIND", help=only)
        said.add_arguments(parser, wants_reason=True)

    def run(self, *, address: str, kind: str, who: str | None, why: str, **_options: Any) -> Result:
        address = addresses.canonical(address.strip())
        hashed, reason = suppression.address_hash(addresses.as_stored(address)), addresses.redacted(why, address)
        if not actions.release(acting.of_shell(who), hashed, why=reason, kind=kind):
            raise ValueError(f"{address} {_is_not_listed(kind)}.")
        again = f"{address} is written to again{f', with e-mails of the kind {kind}' if kind else ''}."
        return Result(text=lambda: again, data={"released": address, **({"kind": kind} if kind else {})})


def _is_not_listed(kind: str) -> str:
    return f"has not unsubscribed from {kind}" if kind else "is not on the suppression list"


class Suppressed(Subcommand):
    """Lists the suppressed addresses."""

    name = "suppressed"
    help = "list the addresses that are not written to, the newest first; of forgotten ones, the hash"
    examples = ("suppressed", "suppressed --before 4711 --limit 1000 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--before", type=row_id, metavar="ID", help="go on after this one, the last of a page")
        parser.add_argument(
            "--limit", type=at_least_one, default=LISTED, metavar="N", help=f"how many (default {LISTED})"
        )

    def run(self, *, before: int | None, limit: int, **_options: Any) -> Result:
        entries = Suppression.objects.order_by("-pk")
        if before:
            entries = entries.filter(pk__lt=before)
        found = list(entries[: limit + 1])
        shown, has_more = found[:limit], len(found) > limit
        return Result(
            text=lambda: email_text.suppressed_text(shown, has_more=has_more),
            data={"has_more": has_more, "suppressed": [email_text.suppression_data(entry) for entry in shown]},
        )


class Forget(Subcommand):
    """Removes personal data from all e-mails to an address."""

    name = "forget"
    help = "remove what is personal of all e-mails to an address, and write to it no more; the proof stays"
    description = (
        "Cancel what waits for an address, remove address, name, subject, context, replies and contents of all e-mails "
        "to it, and put its hash on the suppression list. Ids, hashes, times and states stay. It cannot be undone."
    )
    examples = ('forget kim@example.com --why "Request 4711 to be deleted" --who Ada',)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("address", type=utf8, metavar="ADDRESS")
        said.add_arguments(parser, wants_reason=True)

    def run(self, *, address: str, who: str | None, why: str, **_options: Any) -> Result:
        done = actions.forget(acting.of_shell(who), address, why=why)
        refused = []
        if done.left:
            number = email_text.counted(done.left, "e-mail is", "e-mails are")
            refused = [f"{number} in a relay's hands: repeat it when that has ended."]
        return Result(
            text=lambda: (
                f"{email_text.counted(done.forgotten, 'e-mail')} forgotten, {done.cancelled:,} of them cancelled."
            ),
            data=done._asdict(),
            refused=refused,
        )
