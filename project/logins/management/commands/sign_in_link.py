import os
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, CommandParser

from project.logins import links
from project.processes import folder
from weir.workers.cli.actions import ExactCommand
from weir.workers.cli.arguments import port


class Command(ExactCommand):
    help = (
        "Print a link that signs you in to the operators' pages: once, within a minute, from this host. "
        "It signs in the user `operator`, who has no password, and may look at everything."
    )
    examples = ("", "--port 8001")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--port",
            type=port,
            help="where the web process listens (default: that of the `make up` of this folder, else PORT, or 8000)",
        )

    def handle(self, *_args: object, **options: Any) -> None:
        chosen = options["port"] or _default_port()
        try:
            self.stdout.write(links.make(f"http://127.0.0.1:{chosen}"))
        except links.NotOurs as error:
            raise CommandError(str(error)) from error


def _default_port() -> int:
    if (up := folder.of_this_database()) is not None:
        return up.port
    try:
        return port(os.environ.get("PORT") or "8000")
    except ArgumentTypeError as error:
        raise CommandError(f"PORT {error}.") from error
