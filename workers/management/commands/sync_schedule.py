from typing import Any

from weir.workers.beat import rows
from weir.workers.cli.actions import ExactCommand
from weir.workers.schedule import entries


class Command(ExactCommand):
    help = "Create missing entries of the beat schedule, and remove stale ones. Changes by operators are kept."

    def handle(self, *_args: Any, **_options: Any) -> None:
        done = rows.synchronise(entries())
        self.stdout.write(f"Schedule: {done.entries} entries, {done.created} created, {done.removed} removed.")
