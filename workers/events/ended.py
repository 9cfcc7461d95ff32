"""`manage.py fetches ended`, and the same of `emails` and `effects`: the event log, from a cursor on."""

from datetime import UTC
from typing import Any

from django.core.management.base import CommandParser
from rich.text import Text

from weir.workers.cli import terminal
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import at_least_one
from weir.workers.cursors import BadCursor
from weir.workers.events import log
from weir.workers.events.models import Event, Subject

LISTED = 20
REFUSALS = (log.NoEvents, log.EventsGone, BadCursor)


class Ended(Subcommand):
    """List ends."""

    name = "ended"

    help = "list which have ended after a cursor, without missing one"
    examples = ("ended", "ended --after CURSOR --limit 1000 --json")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--after", default="", metavar="CURSOR", help="go on there; without it, from the oldest event that is kept"
        )
        parser.add_argument(
            "--limit", type=at_least_one, default=LISTED, metavar="N", help=f"N of them (default {LISTED})"
        )

    def run(self, *, after: str, limit: int, **_options: Any) -> Result:
        events, cursor = log.read(after, min(limit, log.MOST), self.subject)
        return Result(
            text=lambda: (_table(events) if events else "No more have ended. ") + f"--after {cursor} goes on.",
            data={"events": [as_data(event) for event in events], "next": cursor},
        )


def as_data(event: Event) -> dict[str, object]:
    """Return an event for machines."""
    of_fetch = event.subject == Subject.FETCH
    named = {"reference": event.reference or None} if of_fetch else {"kind": event.kind, "key": event.reference}
    return {
        "id": event.pk,
        "type": event.type,
        event.subject: event.subject_id,
        "state": event.state,
        **named,
        "at": event.at.isoformat(),
    }


def _table(events: list[Event]) -> str:
    """Return events as a table."""
    table = terminal.table("event", "ended", "type", "id", "reference", numbers=("event", "id"))
    for event in events:
        ended = event.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        named = " ".join(filter(None, (event.kind, event.reference)))
        table.add_row(str(event.pk), ended, event.type, str(event.subject_id), Text(terminal.printable(named)))
    return terminal.rendered(table)
