from typing import Any

from weir.notifications import flush
from weir.workers.cli.actions import ExactCommand


class Command(ExactCommand):
    help = "Bring the deltas of unread numbers from Redis to PostgreSQL now. The schedule does it every two seconds."

    def handle(self, *_args: object, **_options: Any) -> None:
        report = flush.flush_sealed()
        self.stdout.write(f"{report.users:,} unread numbers written.")
