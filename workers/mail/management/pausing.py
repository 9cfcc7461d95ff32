"""`manage.py emails kinds`, `pause` and `resume`."""

from collections.abc import Callable
from typing import Any, Final

from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import one_of
from weir.workers.ledger import commands
from weir.workers.mail import kinds
from weir.workers.mail.actions.kinds import KINDS
from weir.workers.mail.management import email_text
from weir.workers.mail.management.listing import refuse_unknown
from weir.workers.mail.reports import counts

PRINTED_BY: Final = "`emails kinds --json`"


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


class Pause(commands.PauseKind):
    """Stops sending a kind of e-mail."""

    help = "begin no e-mail of a kind until an operator resumes it"
    examples = ('pause order.shipped --why "The text is wrong." --who Ada',)
    kinds = KINDS
    printed_by = PRINTED_BY

    def typed(self) -> Callable[[str], str]:
        return one_of(kinds.names(), "kind")


class Resume(commands.ResumeKind):
    """Resumes sending a kind of e-mail."""

    help = "resume sending the e-mails of a kind"
    examples = ('resume order.shipped --why "The text is right now."',)
    kinds = KINDS
    printed_by = PRINTED_BY
    resumed = "Sending {} is resumed."

    def refuse_unknown(self, kind: str) -> None:
        refuse_unknown(kind)
