"""`manage.py emails kinds`, `pause` and `resume`."""

from typing import Any

from django.core.management.base import CommandParser

from weir.workers.audit import acting, said
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import one_of, utf8
from weir.workers.mail import kinds
from weir.workers.mail.actions import kinds as actions
from weir.workers.mail.management import email_text
from weir.workers.mail.management.listing import refuse_unknown
from weir.workers.mail.models import PausedKind
from weir.workers.mail.reports import counts


class Kinds(Subcommand):
    """Lists all kinds of e-mail."""

    name = "kinds"
    help = (
        "list the kinds of e-mail: which are paused, by which relays they go, and how many of each wait, are unknown, "
        "failed, and were sent"
    )
    examples = ("kinds", "kinds --json")

    def run(self, **_options: Any) -> Result:
        found = counts.of_kinds()
        return Result(
            text=lambda: email_text.kinds_text(found),
            data={"counted_to": counts.MOST, "kinds": [email_text.kind_data(numbers) for numbers in found]},
        )


class Pause(Subcommand):
    """Stops sending a kind of e-mail."""

    name = "pause"
    help = "begin no e-mail of a kind until an operator resumes it"
    examples = ('pause order.shipped --why "The text is wrong." --who Ada',)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", type=one_of(kinds.names(), "kind"), metavar="KIND")
        _add_said(parser)

    def run(self, *, kind: str, seen: str | None, who: str | None, why: str, **_options: Any) -> Result:
        if not actions.pause(acting.of_shell(who), kind, why=why, seen=seen):
            raise ValueError(f"{PausedKind.objects.get(pk=kind)}. It stays so.")
        return Result(text=lambda: f"{kind} is paused: what is queued waits.", data={"paused": kind})


class Resume(Subcommand):
    """Resumes sending a kind of e-mail."""

    name = "resume"
    help = "resume sending the e-mails of a kind"
    examples = ('resume order.shipped --why "The text is right now."',)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", type=utf8, metavar="KIND")
        _add_said(parser)

    def run(self, *, kind: str, seen: str | None, who: str | None, why: str, **_options: Any) -> Result:
        if not actions.resume(acting.of_shell(who), kind, why=why, seen=seen):
            refuse_unknown(kind)
            raise ValueError(f"{kind} is not paused.")
        return Result(text=lambda: f"Sending {kind} is resumed.", data={"resumed": kind})


def _add_said(parser: CommandParser) -> None:
    said.add_seen(parser, "`emails kinds --json`")
    said.add_arguments(parser, wants_reason=True)
