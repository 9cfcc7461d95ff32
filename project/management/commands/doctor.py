import json
import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandParser

from project.doctor import report, runner
from project.doctor.findings import Finding, Level
from project.doctor.themes import themes
from weir.workers.cli import terminal
from weir.workers.cli.actions import ExactCommand

SOMETHING_IS_WRONG = 1  # the exit status


class Command(ExactCommand):
    help = (
        "Check this installation: packages, variables, servers, processes, queues, the mail server, DNS. Each line is "
        "good, or one sentence with what to do. Nothing is changed, no e-mail is sent, and nothing is connected to but "
        "what the settings name. Exit status: 0; 1 when something is wrong, which a warning is not."
    )
    requires_system_checks: list[str] = []  # the report includes them

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout")

    def handle(self, *_args: object, **options: Any) -> None:
        logging.disable(logging.ERROR)  # the findings say the same as the libraries' log lines
        try:
            self._report(**options)
        finally:
            logging.disable(logging.NOTSET)

    def _report(self, **options: Any) -> None:
        began_at = time.monotonic()
        asked = runner.findings(themes())
        found = list(asked if options["json"] else self._shown(asked))
        if options["json"]:
            self.stdout.write(json.dumps(report.as_data(found, time.monotonic() - began_at)))
        else:
            self.stdout.write(f"\n{report.total(found)}")
        if not report.is_well(found):
            sys.exit(SOMETHING_IS_WRONG)

    def _shown(self, asked: Iterable[Finding]) -> Iterable[Finding]:
        """Yield the findings, and write each immediately: some checks take seconds."""
        styles = {Level.WRONG: self.style.ERROR, Level.WARNING: self.style.WARNING}
        theme = ""
        for finding in asked:
            if finding.theme != theme:
                theme = finding.theme
                self.stdout.write(self.style.MIGRATE_HEADING(theme))
            self.stdout.write(styles.get(finding.level, str)(terminal.printable(report.line(finding))))
            self.stdout.flush()
            yield finding
