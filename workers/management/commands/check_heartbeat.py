from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from workers import heartbeats


class Command(BaseCommand):
    help = (
        "Exit 0 if a worker of the queue ran its scheduled heartbeat lately, else 1. A pass proves beat, broker, a worker "
        "and PostgreSQL, end to end; a failure says only that one of them is missing."
    )
    requires_system_checks: list[str] = []  # asked every minute: it should cost little

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", choices=heartbeats.QUEUES)

    def handle(self, *_args: Any, queue: str, **_options: Any) -> None:
        try:
            silent = queue in heartbeats.silent_queues()
        except Error as error:
            raise CommandError("PostgreSQL does not answer: see that it runs, and DATABASE_URL.") from error
        if silent:
            minutes = heartbeats.FRESH.total_seconds() / 60
            raise CommandError(
                f"No heartbeat from the queue {queue} for {minutes:g} minutes: see that beat, the broker and its worker run."
            )
        self.stdout.write(f"The queue {queue} is alive.")
