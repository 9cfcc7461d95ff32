import argparse
import getpass
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.db.models import Count, DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Coalesce, Now

from workers.cli.actions import Action, ActionCommand, Answer
from workers.cli.arguments import from_zero, one_of, row_id
from workers.mail import resolving
from workers.mail.management import email_text
from workers.mail.management.bounces import Bounces
from workers.mail.management.evidence import Evidence
from workers.mail.models import Act, Email, Resolution, State

LONGEST_WHO: int = Resolution._meta.get_field("who").max_length or 0  # noqa: SLF001  documented, in spite of its name
LISTED = 100
SAID = {True: "it arrived", False: "it is sent again"}


class List(Action):
    """The e-mails of one state."""

    name = "list"
    help = "count the e-mails by state, and list those of one state, the oldest first"
    examples = ("list", "list --state pending", "list --state failed --limit 0 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--state",
            type=one_of(State, "state"),
            default=State.UNKNOWN.value,
            metavar="STATE",
            help=f"which to list: {', '.join(State)} (default {State.UNKNOWN.value})",
        )
        parser.add_argument(
            "--limit", type=from_zero, default=LISTED, metavar="N", help=f"the N oldest; 0 = all (default {LISTED})"
        )

    def run(self, *, state: str, limit: int, **_options: Any) -> Answer:
        counts = {each.value: 0 for each in State}
        counts |= dict(Email.objects.values_list("state").annotate(Count("pk")).order_by())
        emails = list(_oldest(State(state))[: limit or None])
        return Answer(
            text=lambda: email_text.list_text(emails, counts, state),
            data={
                "counts": counts,
                "state": state,
                "emails": [email_text.as_data(email) for email in emails],
            },
        )


class Show(Action):
    """All about one e-mail."""

    name = "show"
    help = "show everything about one e-mail, and what operators said about it"
    examples = ("show 17", "show 17 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")

    def run(self, **options: Any) -> Answer:
        email = _with_age(Email.objects.filter(pk=options["id"])).first()
        if email is None:
            raise ValueError(f"There is no e-mail {options['id']}.")
        of = email_text.details(email)
        return Answer(text=lambda: email_text.as_text(of), data=of)


class Resolve(Action):
    """An operator says what became of e-mails."""

    name = "resolve"
    help = "say of e-mails that they arrived, or have them sent again"
    examples = (
        'resolve 17 --arrived --why "It is in the mail server\'s log."',
        'resolve 17 18 --resend --why "The mail server lost its queue." --who Ada',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")
        said = parser.add_mutually_exclusive_group(required=True)
        said.add_argument("--arrived", action="store_true", help="the mail server has it: nothing more is sent")
        said.add_argument(
            "--resend", action="store_true", help="send it again, also a failed one; its recipient may get it twice"
        )
        parser.add_argument(
            "--why", type=words, required=True, metavar="TEXT", help="what you found out; it is kept with the e-mail"
        )
        parser.add_argument(
            "--who", type=name, metavar="NAME", help="who says so; default: your name in the operating system"
        )

    def run(self, *, arrived: bool, who: str | None, why: str, **options: Any) -> Answer:
        resolved: list[int] = []
        refused: list[str] = []
        who = who or _me()
        act = Act.ARRIVED if arrived else Act.RESEND
        for email_id in dict.fromkeys(options["ids"]):
            try:
                resolving.resolve(email_id, act, who, why)
            except Email.DoesNotExist:
                refused.append(f"There is no e-mail {email_id}.")
            except resolving.CannotBeResolved as error:
                refused.append(str(error))
            else:
                resolved.append(email_id)
        return Answer(
            text=lambda: "\n".join(f"E-mail {email_id}: {SAID[arrived]}." for email_id in resolved),
            data={"resolved": resolved, "refused": refused},
            refused=refused,
        )


class Command(ActionCommand):
    help = "Count the e-mails by state, list and show them, or say what became of those that are unknown."
    actions = (List(), Show(), Resolve(), Evidence(), Bounces())
    refusals: ClassVar = (ValueError,)


def words(text: str) -> str:
    """Return a text without the blanks around it, for argparse; it must not be blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it must not be blank")
    return text.strip()


def name(text: str) -> str:
    """Return the name of the person who resolves e-mails, for argparse."""
    if len(words(text)) > LONGEST_WHO:
        raise argparse.ArgumentTypeError(f"it must have {LONGEST_WHO} characters at most")
    return words(text)


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a container whose user has a number only
        raise CommandError("The operating system does not know your name: say it with --who.") from error


def _oldest(state: State) -> QuerySet[Email]:
    """Return the e-mails in this state with their ages by the database's clock, the oldest first."""
    emails = Email.objects
    ordered: QuerySet[Email] = (
        emails.unknown() if state == State.UNKNOWN else emails.filter(state=state).order_by("created_at", "pk")
    )
    return _with_age(ordered)


def _with_age(emails: QuerySet[Email]) -> QuerySet[Email]:
    since = Coalesce(F("sending_since"), F("created_at"))
    return emails.annotate(age=ExpressionWrapper(Now() - since, DurationField()))
