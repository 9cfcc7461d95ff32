"""`manage.py emails resolve`, `cancel` and `correct`: a person decides about single e-mails."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from weir.workers.audit import acting
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import row_id, utf8
from weir.workers.ledger import commands
from weir.workers.mail.actions import emails as actions
from weir.workers.mail.models import Act, Email

SAID: Mapping[Act, str] = {
    Act.ARRIVED: "it arrived",
    Act.RESEND: "it is sent again",
    Act.GIVE_UP: "it stays unsent",
    Act.CANCEL: "it is cancelled",
    Act.CORRECT: "it is rendered anew, and sent",
}


class Resolve(Subcommand):
    """Records what a person says about unknown e-mails, or resends e-mails."""

    name = "resolve"
    help = "say of e-mails that they arrived, have them sent again, or give them up"
    examples = (
        'resolve 17 --arrived --why "It is in the mail server\'s log."',
        'resolve 17 18 --resend --why "The mail server lost its queue." --who Ada',
        'resolve 17 --give-up --why "The customer was called."',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        commands.add_ids(parser)
        acts = parser.add_mutually_exclusive_group(required=True)
        for option, act, help_text in (
            ("--arrived", Act.ARRIVED, "the mail server has it: nothing more is sent"),
            (
                "--resend",
                Act.RESEND,
                "send it again, as it was rendered; who gets an unknown one, or one left unsent, may get it twice",
            ),
            ("--give-up", Act.GIVE_UP, "it is not sent again, and whether it arrived is not known"),
        ):
            acts.add_argument(option, dest="act", action="store_const", const=act, help=help_text)
        _add_said(parser)

    def run(self, *, ids: list[int], act: Act, who: str | None, why: str, **options: Any) -> Result:
        return _each(ids, act, who, why, seen=options["seen"])


class Cancel(Subcommand):
    """Cancels waiting e-mails."""

    name = "cancel"
    help = "have e-mails not sent that wait, and that no mailer has begun"
    examples = ('cancel 17 18 --why "The order was cancelled."',)

    def add_arguments(self, parser: CommandParser) -> None:
        commands.add_ids(parser)
        _add_said(parser)

    def run(self, *, ids: list[int], who: str | None, why: str, **options: Any) -> Result:
        return _each(ids, Act.CANCEL, who, why, seen=options["seen"])


class Correct(Subcommand):
    """Has an e-mail rendered anew, and sent."""

    name = "correct"
    help = "have an e-mail rendered anew and sent, to another address if there is one"
    description = (
        "Have an e-mail rendered anew, by the templates and the data of today, and sent. It must be certain that it "
        "was not accepted, or that it came back. One that has ended does not expire any more."
    )
    examples = (
        'correct 17 --to kim@example.com --why "There was a typing mistake in the address."',
        'correct 17 --why "The template was wrong."',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")
        parser.add_argument("--to", type=utf8, metavar="ADDRESS", help="its recipient from now on")
        _add_said(parser)

    def run(self, *, to: str | None, who: str | None, why: str, **options: Any) -> Result:
        return _each([options["id"]], Act.CORRECT, who, why, to=to, seen=options["seen"])


def _add_said(parser: CommandParser) -> None:
    commands.add_said(parser, "`emails show`")


def _each(ids: list[int], act: Act, who: str | None, why: str, *, seen: str | None, to: str | None = None) -> Result:
    actor = acting.of_shell(who)

    def resolve(email_id: int) -> str:
        expired_at = Email.objects.values_list("expires_at", flat=True).get(pk=email_id)
        email = actions.resolve(actor, email_id, act, why=why, to=to, seen=seen)
        is_lifted = expired_at is not None and email.expires_at is None
        return SAID[act] + (", and does not expire any more" if is_lifted else "")

    return commands.resolve_each("e-mail", ids, act.value, seen, resolve)
