from typing import Any

from django.core.management.base import BaseCommand

from notifications import flush


class Command(BaseCommand):
    help = "Bring the deltas of unread numbers from Redis to PostgreSQL now. The schedule does it every two seconds."

    def handle(self, *_args: object, **_options: Any) -> None:
        report = flush.flush_sealed()
        self.stdout.write(f"{report.users:,} unread numbers written.")
