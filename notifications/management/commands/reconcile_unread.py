from argparse import ArgumentTypeError
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import pluralize
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from weir.notifications import actions, reconcile, user_keys
from weir.notifications.models import Doubt, UnreadCount
from weir.notifications.reconciliation.repairs import Repaired
from weir.notifications.user_keys import UserKey
from weir.workers.audit import acting, said
from weir.workers.cli.actions import ExactCommand


@dataclass(kw_only=True, slots=True)
class _Undecided:
    """How many users cannot be judged now, and how many of these have no doubt. The users may be too many to keep."""

    users: int = 0
    without_doubt: int = 0

    def add(self, users: Collection[UserKey]) -> None:
        self.users += len(users)
        self.without_doubt += len(users) - Doubt.objects.filter(user_id__in=users).count()


class Command(ExactCommand):
    help = (
        "Compare all users' unread numbers with their rows now, print every number that is wrong, and repair it. "
        "The schedule does the same, slice by slice."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--user", type=_user, metavar="ID", action="append", help="only this user; may be repeated")
        parser.add_argument("--dry-run", action="store_true", help="print what is wrong, and change nothing")
        said.add_arguments(parser)

    def handle(self, *_args: object, **options: Any) -> None:
        users, dry_run = options["user"], options["dry_run"]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        undecided = _Undecided()
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Users", total=len(users) if users else UnreadCount.objects.count())
            told: dict[str, Any] = {
                "on_progress": lambda done: progress.advance(bar, done),
                "on_drift": lambda user_id, drift: self.stdout.write(f"user {user_id}: {drift:+,}"),
                "on_undecided": undecided.add,
            }
            if dry_run:
                repaired = reconcile.reconcile_users(users, dry_run=True, **told)
            else:
                repaired = _repaired(users, options, told)
        self.stdout.write("\n".join(_sentences(repaired.users, undecided, dry_run=dry_run)))


def _repaired(users: list[UserKey] | None, options: dict[str, Any], told: dict[str, Any]) -> Repaired:
    try:
        actor = acting.of_shell(options["who"])
        return actions.reconcile_users(actor, users, why=options.get("why", ""), **told)
    except acting.ActRefused as error:
        raise CommandError(str(error)) from error


def _user(text: str) -> UserKey:
    try:
        return user_keys.clean(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _sentences(repaired: int, undecided: _Undecided, *, dry_run: bool) -> Iterator[str]:
    """Yield sentences about what was found: only the verb depends on `dry_run`."""
    if repaired:
        verb = "would be repaired" if dry_run else "repaired"
        yield f"{repaired:,} unread number{pluralize(repaired)} {verb}."
    else:
        yield "No unread number is known to be wrong." if undecided.users else "No unread number is wrong."
    if doubts := Doubt.objects.count() + undecided.without_doubt:
        yield (
            f"{doubts:,} user{pluralize(doubts)} changed too fast, or lost touch with Redis, and cannot be judged now: "
            "the schedule looks again, every ten seconds, and those who differ have their rows counted until then."
        )
