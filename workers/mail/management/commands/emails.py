import argparse
import getpass
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils.text import Truncator
from rich.text import Text

from workers.cli import terminal
from workers.cli.arguments import from_zero, row_id
from workers.mail import kinds, resolving
from workers.mail.kinds import Summary
from workers.mail.models import Email, Resolution, State

LISTED = resolving.RESOLVABLE[False]
COLUMNS = ("id", "kind", "label", "recipient", "phase", "last reply", "worker", "age")
NEVER_FOLDED = ("id", "phase", "age")
SHOWN = 200  # characters of a reply in the table; --json has all of them
LONGEST_WHO: int = Resolution._meta.get_field("who").max_length or 0  # noqa: SLF001  documented, in spite of its name
SAID = {True: "it arrived", False: "it is sent again"}


class Command(BaseCommand):
    help = "Count the e-mails by state and list the unknown ones, or say what became of some of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
        parser.add_argument("--limit", type=from_zero, default=100, help="list the N oldest; 0 = all (default 100)")
        parser.add_argument(
            "--state", choices=[state.value for state in LISTED], default=State.UNKNOWN.value, help="which to list"
        )
        actions = parser.add_subparsers(dest="action", metavar="{resolve}")

        resolve = actions.add_parser("resolve", help="say that they arrived, or have them sent again")
        resolve.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")
        said = resolve.add_mutually_exclusive_group(required=True)
        said.add_argument("--arrived", action="store_true", help="the mail server has it: nothing more is sent")
        said.add_argument(
            "--resend", action="store_true", help="send it again, also a failed one; its recipient may get it twice"
        )
        resolve.add_argument("--why", type=words, required=True, help="what you found out; it is kept with the e-mail")
        resolve.add_argument("--who", type=name, help="who says so; default: your name in the operating system")

    def handle(self, *_args: object, **options: Any) -> None:
        if options["action"] == "resolve":
            self._resolve(options["ids"], options["arrived"], options["who"] or _me(), options["why"])
        else:
            self._list(State(options["state"]), options["limit"] or None, as_json=options["json"])

    def _resolve(self, ids: Sequence[int], arrived: bool, who: str, why: str) -> None:
        """Resolve each by itself; what cannot be is said at the end."""
        refusals = []
        for email_id in dict.fromkeys(ids):
            try:
                resolving.resolve(email_id, arrived, who, why)
            except Email.DoesNotExist:
                refusals.append(f"There is no e-mail {email_id}.")
            except resolving.CannotBeResolved as error:
                refusals.append(str(error))
            else:
                self.stdout.write(f"E-mail {email_id}: {SAID[arrived]}.")
        if refusals:
            raise CommandError("\n".join(refusals))

    def _list(self, state: State, most: int | None, *, as_json: bool) -> None:
        counts = {each.value: 0 for each in State}
        counts |= dict(Email.objects.values_list("state").annotate(Count("pk")).order_by())
        emails = list(_oldest(state)[:most])
        summaries = kinds.summaries(emails)
        if as_json:
            listed = [_as_data(email, summaries[email.pk]) for email in emails]
            self.stdout.write(json.dumps({"counts": counts, "state": state.value, "emails": listed}))
            return
        for counted, number in counts.items():
            self.stdout.write(f"{number:>11,} {counted}")
        if emails:
            self.stdout.write("")
            self.stdout.write(_as_table(emails, summaries), ending="")
        if (hidden := counts[state] - len(emails)) > 0:
            self.stdout.write(f"{hidden:,} of {counts[state]:,}, less old, are not shown: --limit 0 shows all.")


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
    since = Coalesce(F("sending_since"), F("created_at"))
    return ordered.annotate(age=ExpressionWrapper(Now() - since, DurationField()))


def _age_s(email: Email) -> float:
    age_s: float = vars(email)["age"].total_seconds()
    return max(0.0, age_s)


def _as_table(emails: Sequence[Email], summaries: Mapping[int, Summary]) -> str:
    table = terminal.table(*COLUMNS, numbers=("id", "age"))
    for column in table.columns:
        column.no_wrap = column.header in NEVER_FOLDED
    for email in emails:
        texts = (
            email.kind,
            *summaries[email.pk],
            email.phase,
            Truncator(email.last_reply).chars(SHOWN),
            email.claimed_by,
        )
        table.add_row(
            str(email.pk),
            *(Text(terminal.printable(text)) for text in texts),
            terminal.span(_age_s(email)),
        )
    return terminal.rendered(table)


def _as_data(email: Email, summary: Summary) -> dict[str, object]:
    return {
        "id": email.pk,
        "kind": email.kind,
        "key": email.key,
        "label": summary.label,
        "recipient": summary.recipient,
        "message_id": email.message_id,
        "attempts": email.attempts,
        "phase": email.phase,
        "last_reply": email.last_reply,
        "worker": email.claimed_by,
        "age_s": round(_age_s(email), 3),
    }
