import argparse
import json
import sys
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from weir.conf.texts.moments import parse_moment
from weir.workers.audit import listing
from weir.workers.audit.models import Entry
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import utf8


class List(Subcommand):
    """The newest entries."""

    name = "list"
    help = "list who changed what, from which door, and why; the newest first"
    examples = ("list", "list --target api.example.com", "list --action sites.pause --since 2h --json")

    def add_arguments(self, parser: CommandParser) -> None:
        _add_filters(parser)
        parser.add_argument("--after", default="", metavar="CURSOR", help="go on where a list ended")

    def run(self, *, after: str, **options: Any) -> Result:
        page = listing.page(_wanted(options), after)
        more = f"\nThere are more: --after {page.next} goes on." if page.next else ""
        return Result(
            text=lambda: "\n".join(map(_line, page.entries)) + more if page.entries else "Nothing was changed.",
            data={"entries": [listing.as_data(entry) for entry in page.entries], "next": page.next},
        )


class Export(Subcommand):
    """All entries, for another system."""

    name = "export"
    help = "write the entries to stdout, the oldest first, one JSON object a line"
    examples = ("export > audit.jsonl", "export --since 1d --target api.example.com")

    def add_arguments(self, parser: CommandParser) -> None:
        _add_filters(parser)

    def run(self, **options: Any) -> Result:
        for entry in listing.lines(_wanted(options)):
            sys.stdout.write(json.dumps(entry) + "\n")
        return Result(text=lambda: "", data={})


class Command(ActionCommand):
    help = "List and export what operators have changed."
    actions = (List(), Export())
    refusals = (ValueError,)


def _add_filters(parser: CommandParser) -> None:
    for name, metavar, what in (
        ("target", "TARGET", "about this target, such as a host"),
        ("action", "NAME", "of this action, such as sites.pause"),
        ("actor", "NAME", "by this actor"),
    ):
        parser.add_argument(
            f"--{name}", dest=f"of_{name}", type=utf8, default="", metavar=metavar, help=f"only entries {what}"
        )
    for name, what in (("since", "since then: a time, or how long ago, such as 2h"), ("until", "until then")):
        parser.add_argument(f"--{name}", dest=f"of_{name}", type=_moment, metavar="1d", help=f"only entries {what}")


def _wanted(options: dict[str, Any]) -> listing.EntryFilters:
    return listing.EntryFilters(**{name: options[f"of_{name}"] for name in (*listing.NAMED, *listing.TIMES)})


def _moment(text: str) -> datetime:
    try:
        return parse_moment("it", text, timezone.now())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _line(entry: Entry) -> str:
    changed = ", ".join(f"{name} {'-' if now is None else now}" for name, _was, now in entry.changes)
    who = f"{entry.at:%Y-%m-%d %H:%M:%S} UTC  {entry.actor} ({entry.door})"
    return terminal.printable(f"{who}  {entry.action}  {entry.target}  {changed}  {entry.why}".rstrip())
