"""`manage.py emails bounces`: reads delivery reports, and applies them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from weir.logs.loggers import get_logger
from weir.workers.cli import terminal
from weir.workers.cli.actions import Result, Subcommand
from weir.workers.mail.bounces import handling, maildir, mime, reports
from weir.workers.mail.bounces.handling import Handled

STDIN = "-"
NO_REPORT = "No delivery report."

log = get_logger(__name__)


class Bounces(Subcommand):
    """The delivery reports that came back."""

    name = "bounces"
    help = "read delivery reports (RFC 3464) from a Maildir, from files, or from stdin"
    description = (
        "Read delivery reports and mark the e-mails that were not delivered. In a Maildir, what was handled is marked "
        "as seen, and what is not a report is flagged as well, for people. In a pipe of a mail server, exit status 75 "
        "asks it to try again later: PostgreSQL did not answer, or a receiver of the signal failed."
    )
    examples = ("bounces --maildir /var/mail/bounces", "bounces - < report.eml", "bounces report.eml --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", metavar="FILE", help="an e-mail; - is stdin")
        parser.add_argument("--maildir", type=Path, metavar="DIR", help="what is not marked as seen in this Maildir")

    def run(self, *, files: list[str], maildir: Path | None, **_options: Any) -> Result:
        if bool(files) == bool(maildir):
            raise ValueError("Name a Maildir with --maildir, or files, or - for stdin.")
        errors: list[str] = []
        found = list(_of_maildir(maildir, errors) if maildir else _of_files(files, errors))
        return Result(text=lambda: "\n".join(_lines(found, errors)), data=_data(found, errors), status=_status(errors))


def _of_files(names: list[str], errors: list[str]) -> Iterator[tuple[str, list[Handled]]]:
    for name in names:
        try:
            with sys.stdin.buffer if name == STDIN else Path(name).open("rb") as file:
                content = file.read(mime.LOOKED_AT)
                while name == STDIN and file.read(mime.LOOKED_AT):  # else a pipe's writer gets an error
                    pass
        except OSError as error:
            raise ValueError(f"{name}: {error.strerror}.") from error
        if (handled := _handled(name, content, errors)) is not None:
            yield name, handled


def _of_maildir(folder: Path, errors: list[str]) -> Iterator[tuple[str, list[Handled]]]:
    for path in maildir.unseen(folder):
        content = maildir.read(path, mime.LOOKED_AT)
        handled = None if content is None else _handled(path.name, content, errors)
        if handled is not None:
            maildir.mark(path, for_people=not any(each.believed for each in handled))
            yield path.name, handled


def _handled(name: str, content: bytes, errors: list[str]) -> list[Handled] | None:
    """Handle the reports in an e-mail. Return None, and add an error, if the e-mail is to be handled again."""
    try:
        return [handling.handle(report) for report in reports.parse(content)]
    except Exception as error:
        log.exception("delivery_report_not_handled", name=name)
        errors.append(f"{name}: {type(error).__name__}: {error}")
        return None


def _status(errors: list[str]) -> int:
    return os.EX_TEMPFAIL if errors else 0


def _lines(found: list[tuple[str, list[Handled]]], errors: list[str]) -> Iterator[str]:
    for name, handled in found:
        for sentence in [each.sentence for each in handled] or [NO_REPORT]:
            yield terminal.printable(f"{name}: {sentence}")
    yield f"Read: {len(found):,}. Bounced: {sum(each.bounced for _, all_ in found for each in all_):,}."
    yield from (terminal.printable(f"To be tried again: {error}") for error in errors)


def _data(found: list[tuple[str, list[Handled]]], errors: list[str]) -> dict[str, object]:
    return {
        "read": len(found),
        "errors": errors,
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
