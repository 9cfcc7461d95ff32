from collections.abc import Collection, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.template.defaultfilters import pluralize
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from notifications import reconcile
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
        undecided: set[int] = set()
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Users", total=len(users) if users else UnreadCount.objects.count())
            drifts = reconcile.reconcile_users(
                users,
                dry_run=dry_run,
                on_progress=lambda done: progress.advance(bar, done),
                on_drift=lambda user_id, drift: self.stdout.write(f"user {user_id}: {drift:+,}"),
                on_undecided=undecided.update,
            )
        self.stdout.write("\n".join(_sentences(len(drifts), undecided, dry_run=dry_run)))


def _sentences(drifts: int, undecided: Collection[int], *, dry_run: bool) -> Iterator[str]:
    """Yield what was found: the same with and without `dry_run`, but for whether it was repaired."""
    if drifts:
        verb = "would be repaired" if dry_run else "repaired"
        yield f"{drifts:,} unread number{pluralize(drifts)} {verb}."
    else:
        yield "No unread number is known to be wrong." if undecided else "No unread number is wrong."
    known = Doubt.objects.filter(user_id__in=undecided).count()
    if doubts := Doubt.objects.count() + len(undecided) - known:
        yield (
            f"{doubts:,} user{pluralize(doubts)} changed too fast, or lost touch with Redis, and cannot be judged now: "
            "their rows are counted until the schedule has looked again, every ten seconds."
        )
