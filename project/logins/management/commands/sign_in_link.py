import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from project.logins import links


class Command(BaseCommand):
    help = (
        "Print a link that signs you in to the operators' pages: once, within a minute, from this host. "
        "It signs in the user `operator`, who has no password, and may look at everything."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=int(os.environ.get("PORT") or 8000), help="where the web process listens"
        )

    def handle(self, *_args: object, **options: Any) -> None:
        self.stdout.write(links.make(f"http://127.0.0.1:{options['port']}"))
