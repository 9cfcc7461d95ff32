from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from notifications import heal
from notifications.models import Doubt, UnreadCount


class Command(BaseCommand):
    help = (
        "Compare all users' unread numbers with their rows now, print every number that is wrong, and repair it. "
        "The schedule does the same, slice by slice."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", type=int, metavar="ID", action="append", help="only this user; may be repeated")
        parser.add_argument("--dry-run", action="store_true", help="print what is wrong, and change nothing")

    def handle(self, *_args: object, **options: Any) -> None:
        users, dry_run = options["user"], options["dry_run"]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        verb = "would be repaired" if dry_run else "repaired"
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Users", total=len(users) if users else UnreadCount.objects.count())
            drifts = heal.reconcile(
                users,
                dry_run=dry_run,
                on_progress=lambda done: progress.advance(bar, done),
                on_drift=lambda user_id, drift: self.stdout.write(f"user {user_id}: {drift:+,}"),
            )
        self.stdout.write(f"{len(drifts):,} unread numbers {verb}." if drifts else "No unread number is wrong.")
        if doubts := Doubt.objects.count():
            self.stdout.write(f"{doubts:,} are in doubt, and counted from the rows until heal_unread can say.")
