"""`manage.py emails bounces`: delivery reports have their effect."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import InterfaceError, OperationalError

from workers.cli import terminal
from workers.cli.actions import Action, Answer
from workers.mail.bounces import handling, maildir, reports
from workers.mail.bounces.handling import Handled

STDIN = "-"
NO_REPORT = "No delivery report."


class Bounces(Action):
    """The delivery reports that came back."""

    name = "bounces"
    help = "read delivery reports (RFC 3464) from a Maildir, from files, or from stdin"
    description = (
        "Read delivery reports and mark the e-mails that were not delivered. In a Maildir, what was handled is marked "
        "as seen, and what is no report is flagged as well, for people. In a pipe of a mail server, exit status 75 "
        "asks it to try again later: PostgreSQL did not answer."
    )
    examples = ("bounces --maildir /var/mail/bounces", "bounces - < report.eml", "bounces report.eml --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", metavar="FILE", help="an e-mail; - is stdin")
        parser.add_argument("--maildir", type=Path, metavar="DIR", help="what is not marked as seen in this Maildir")

    def run(self, *, files: list[str], maildir: Path | None, **_options: Any) -> Answer:
        if bool(files) == bool(maildir):
            raise ValueError("Name a Maildir with --maildir, or files, or - for stdin.")
        found: list[tuple[str, list[Handled]]] = []
        status = 0
        try:
            found.extend(_of_maildir(maildir) if maildir else _of_files(files))
        except (OperationalError, InterfaceError):
            status = os.EX_TEMPFAIL
        return Answer(text=lambda: "\n".join(_lines(found, status)), data=_data(found), status=status)


def _of_files(names: list[str]) -> Iterator[tuple[str, list[Handled]]]:
    for name in names:
        try:
            with sys.stdin.buffer if name == STDIN else Path(name).open("rb") as file:
                content = file.read(reports.LOOKED_AT)
                while name == STDIN and file.read(reports.LOOKED_AT):  # who writes a pipe must not find it broken
                    pass
        except OSError as error:
            raise ValueError(f"{name}: {error.strerror}.") from error
        yield name, _handled(content)


def _of_maildir(folder: Path) -> Iterator[tuple[str, list[Handled]]]:
    for path in maildir.unseen(folder):
        content = maildir.read(path, reports.LOOKED_AT)
        if content is not None:
            handled = _handled(content)
            maildir.mark(path, for_people=not any(each.believed for each in handled))
            yield path.name, handled


def _handled(content: bytes) -> list[Handled]:
    return [handling.handle(report) for report in reports.parse(content)]


def _lines(found: list[tuple[str, list[Handled]]], status: int) -> Iterator[str]:
    for name, handled in found:
        for sentence in [each.sentence for each in handled] or [NO_REPORT]:
            yield terminal.printable(f"{name}: {sentence}")
    yield f"{len(found):,} e-mails were read, {sum(each.bounced for _, all_ in found for each in all_):,} bounced."
    if status:
        yield "PostgreSQL did not answer: the rest is left as it is."


def _data(found: list[tuple[str, list[Handled]]]) -> dict[str, object]:
    return {
        "read": len(found),
        "bounced": sum(each.bounced for _, handled in found for each in handled),
        "emails": [
            {
                "name": name,
                "reports": [
                    {"sentence": each.sentence, "believed": each.believed, "bounced": each.bounced} for each in handled
                ],
            }
            for name, handled in found
        ],
    }
