from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers import heartbeats


class Command(BaseCommand):
    help = (
        "Exit 0 if a worker of the queue ran its scheduled heartbeat lately, else 1. Success proves that beat, "
        "the broker, a worker and PostgreSQL work together; failure, that one of them does not."
    )
    requires_system_checks: list[str] = []  # it runs every minute, and should cost little

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", choices=heartbeats.QUEUES)

    def handle(self, *_args: object, queue: str, **_options: object) -> None:
        if queue in heartbeats.silent_queues():
            minutes = heartbeats.FRESH.total_seconds() / 60
            raise CommandError(
                f"No heartbeat from the queue {queue} for {minutes:g} minutes: "
                "see that beat, the broker and a worker of that queue run."
            )
        self.stdout.write(f"The queue {queue} is alive.")
