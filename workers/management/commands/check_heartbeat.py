import socket

from django.core.management.base import CommandError, CommandParser
from django.db import Error

from weir.workers import heartbeats, schedule
from weir.workers.cli.actions import ExactCommand
from weir.workers.processes.status import SILENT_AFTER_S, ProcessStatus, processes


class Command(ExactCommand):
    help = (
        "Exit 0 if a worker of the queue ran its scheduled heartbeat lately, else 1: success proves that beat, the "
        "broker, a worker and PostgreSQL work together; failure, that one of them does not. With --process, exit 1 if "
        f"that process is not known, or its own loop has had no heartbeat for {SILENT_AFTER_S:g} seconds; 0 if it has, "
        "if it is about to end, and if PostgreSQL does not answer, as the state is not known then."
    )
    requires_system_checks: list[str] = []  # the command runs every minute, and must cost little

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        asked = parser.add_mutually_exclusive_group(required=True)
        asked.add_argument("queue", nargs="?", choices=schedule.queues())
        asked.add_argument(
            "--process",
            metavar="NAME",
            help="one of this host: its kind (fetcher, worker, ticks, maintenance, mailer, beat; each of that kind), "
            "its process id, or its name (fetcher.2); or of any host, as NAME@HOST",
        )

    def handle(self, *_args: object, queue: str | None, process: str | None, **_options: object) -> None:
        if process is not None:
            self._check_process(process)
        elif queue in heartbeats.silent_queues():
            minutes = heartbeats.FRESH.total_seconds() / 60
            raise CommandError(
                f"No heartbeat from the queue {queue} for {minutes:g} minutes: "
                "see that beat, the broker and a worker of that queue run."
            )
        else:
            self.stdout.write(f"The queue {queue} is alive.")

    def _check_process(self, wanted: str) -> None:
        try:
            found = [known for known in processes() if known.state != "gone" and _is_meant(known, wanted)]
        except Error as error:
            self.stderr.write(f"PostgreSQL does not answer, so it is not known whether {wanted} goes on: {error}")
            return
        if not found:
            raise CommandError(f"No process {wanted} is known here: `manage.py processes` lists all.")
        for known in found:
            if known.state == "silent":
                raise CommandError(f"{known.name} (pid {known.pid}) has had no heartbeat for {known.silent_s:.0f} s.")
        self.stdout.write(f"{', '.join(f'{known.name} (pid {known.pid}) is {known.state}' for known in found)}.")


def _is_meant(known: ProcessStatus, wanted: str) -> bool:
    if "@" in wanted:
        return known.name == wanted
    names = {*known.kinds, str(known.pid), known.name.rpartition("@")[0]}
    return known.host == socket.gethostname() and wanted in names
