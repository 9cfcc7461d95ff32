import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from weir.workers.cli import terminal
from weir.workers.cli.actions import ExactCommand
from weir.workers.processes.status import SILENT_AFTER_S, ProcessStatus, processes

COLUMNS = ("name", "kind", "pid", "version", "up", "last heartbeat", "holds", "state")
NOT_WELL = 1  # the exit status


class Command(ExactCommand):
    help = (
        f"List Weir's processes on all hosts, and whether each goes on. A process is silent {SILENT_AFTER_S:g} seconds "
        "after the last heartbeat of its own loop: it is frozen, dead, or cut off from PostgreSQL. "
        "Exit status: 0; 1 when one is silent, or none is known."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="one JSON array on stdout")

    def handle(self, *_args: object, **options: Any) -> None:
        known = processes()
        if options["json"]:
            self.stdout.write(json.dumps([_as_data(process) for process in known]))
        elif known:
            self.stdout.write(_as_text(known), ending="")
        else:
            self.stdout.write("No process is known: `make up` starts them, or what `manage.py weir_processes` prints.")
        if not known or any(process.state == "silent" for process in known):
            sys.exit(NOT_WELL)


def _as_data(process: ProcessStatus) -> dict[str, object]:
    names = ("id", "name", "kind", "host", "pid", "version", "holds", "state")
    times = {"started_at": process.started_at.isoformat(), "turned_at": process.turned_at.isoformat()}
    return {name: getattr(process, name) for name in names} | times | {"silent_s": round(process.silent_s, 1)}


def _as_text(known: list[ProcessStatus]) -> str:
    table = terminal.table(*COLUMNS, numbers={"pid", "up", "last heartbeat", "holds"})
    for process in known:
        table.add_row(
            terminal.printable(process.name),
            process.kind,
            str(process.pid),
            process.version,
            terminal.span(process.age_s),
            f"{terminal.span(process.silent_s)} ago",
            str(process.holds),
            process.state,
        )
    return terminal.rendered(table)
