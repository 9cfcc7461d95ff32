import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from weir.workers import broker_link, schedule
from weir.workers.cli.actions import ExactCommand
from weir.workers.processes import lines
from weir.workers.processes.lines import ProcessLine

PYTHON_BIN: Final = "/path/to/venv/bin"


class Command(ExactCommand):
    help = (
        "Print the processes that Weir needs beside yours: workers of the queues of the apps that are installed, and "
        "a beat. Lines for a Procfile, unless an option names another form. Beat runs your own schedule, too: where "
        "you have one, this one takes its place. Each line may run several times; so may beat, of which one ticks."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--systemd", action="store_true", help="one unit after the other, each below its file's name")
        form.add_argument("--compose", action="store_true", help="services of a Compose file")
        parser.add_argument("--small", action="store_true", help="one process for all queues, beat included")
        parser.add_argument("--app", "-A", metavar="APP", help="as of Celery's -A, if it is not found by itself")

    def handle(self, *_args: Any, **options: Any) -> None:
        app = options["app"] or lines.app_option(broker_link.app())
        if app is None:
            raise CommandError(
                "No module has the Celery app of this process: import it in the __init__.py of your project, as Celery "
                "says of Django, or name it by --app."
            )
        queues = [queue for queue in schedule.queues() if queue in schedule.QUEUES]
        wanted = lines.lines(app, queues, small=options["small"])
        form = _systemd if options["systemd"] else _compose if options["compose"] else _procfile
        self.stdout.write("\n".join(form(wanted)))


def _procfile(wanted: Iterable[ProcessLine]) -> Iterator[str]:
    return (f"{line.name}: {line.command}" for line in wanted)


def _systemd(wanted: Iterable[ProcessLine]) -> Iterator[str]:
    """Yield the lines of units. Each % is doubled, because systemd would replace Celery's %h itself."""
    for line in wanted:
        yield f"# /etc/systemd/system/{line.name}.service"
        yield "[Unit]"
        yield f"Description={line.name}"
        yield "After=network-online.target"
        yield ""
        yield "[Service]"
        yield f"WorkingDirectory={Path.cwd()}"
        yield f"ExecStart={PYTHON_BIN}/{line.command.replace('%', '%%')}"
        yield "KillMode=mixed"
        yield f"TimeoutStopSec={line.stops_within_s}"
        yield "Restart=always"
        yield ""
        yield "[Install]"
        yield "WantedBy=multi-user.target"
        yield ""


def _compose(wanted: Iterable[ProcessLine]) -> Iterator[str]:
    """Yield the lines of services, which have the image and the environment of the web service."""
    for line in wanted:
        yield f"  {line.name}:"
        yield "    extends: web  # the service of your web process"
        yield f"    command: {json.dumps(line.words)}"
        yield "    ports: !reset []"
        yield f"    stop_grace_period: {line.stops_within_s}s"
        yield "    restart: unless-stopped"
