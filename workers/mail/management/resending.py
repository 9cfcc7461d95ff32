"""`manage.py emails resend`."""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from weir.workers.audit import acting, said
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import at_least_one, duration, from_zero, utf8
from weir.workers.mail.actions import resending
from weir.workers.mail.actions.resending import WantedEmails
from weir.workers.mail.management.listing import refuse_unknown


class Resend(Subcommand):
    """Resends many failed e-mails together."""

    name = "resend"
    help = "send failed e-mails again, many together, when the cause is mended"
    description = (
        "Send failed e-mails again, as they were rendered: those of a kind, with a reply, since a time. None that may "
        "have arrived is among them: one that somebody left unsent is resolved by itself. They do not expire any more."
    )
    examples = (
        'resend --kind order.shipped --reply "550 Not from here" --since 2h --dry-run',
        'resend --kind order.shipped --reply "550 Not from here" --since 2h --why "The mail server knows us again."',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--kind", type=utf8, metavar="KIND", help="of this kind only")
        parser.add_argument("--reply", type=said.words, metavar="TEXT", help="whose last reply has these words")
        parser.add_argument("--since", type=duration, metavar="TIME", help="that failed within this time, such as 2h")
        parser.add_argument("--all", action="store_true", help="every failed e-mail")
        parser.add_argument("--limit", type=at_least_one, metavar="N", help="the N oldest of them; default: all")
        trial = parser.add_mutually_exclusive_group()
        trial.add_argument("--dry-run", action="store_true", help="say how many it would be, and change nothing")
        trial.add_argument("--expect", type=from_zero, metavar="N", help="change nothing if there are more than N")
        said.add_arguments(parser)

    def run(
        self, *, kind: str | None, reply: str | None, since: timedelta | None, limit: int | None, **options: Any
    ) -> Result:
        if not (kind or reply or since or options["all"]):
            raise ValueError("Say which: --kind, --reply, --since; or --all for every failed e-mail.")
        if kind is not None:
            refuse_unknown(kind)
        wanted = WantedEmails(kind=kind or "", reply=reply or "", since=since)
        if options["dry_run"]:
            number = len(resending.failed(wanted, limit))
            text = f"{number:,} failed e-mail{pluralize(number)} would be sent again."
            return Result(text=lambda: text, data={"would_resend": number})
        sent, refused = resending.resend(
            acting.of_shell(options["who"]),
            wanted,
            why=options.get("why", ""),
            limit=limit,
            expected=options["expect"],
        )
        return Result(
            text=lambda: f"{sent:,} failed e-mail{pluralize(sent, ' is,s are')} sent again.",
            data={"resent": sent, "refused": refused},
            refused=refused,
        )
