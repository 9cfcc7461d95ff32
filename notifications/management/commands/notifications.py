from argparse import ArgumentTypeError
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.db import IntegrityError
from django.template.defaultfilters import pluralize

from weir.notifications import actions, user_keys
from weir.notifications.removal import bulk
from weir.notifications.user_keys import UserKey
from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import at_least_one, duration, from_zero, utf8

LISTED = 20
LOOKED_AT = 10_000  # of the newest notifications, if no user is named


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--kind", type=utf8, action="append", metavar="KIND", help="only this kind; may be repeated")
    parser.add_argument("--user", type=_user, action="append", metavar="ID", help="only this user; may be repeated")
    parser.add_argument(
        "--older-than", type=duration, metavar="30d", help="only those that were written before: 90s, 10m, 2h, 30d"
    )


def _user(text: str) -> UserKey:
    try:
        return user_keys.clean(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _meant(options: dict[str, Any]) -> bulk.Meant:
    return bulk.Meant(kinds=options["kind"] or (), users=options["user"] or (), older_than=options["older_than"])


class List(Subcommand):
    """Lists the newest notifications."""

    name = "list"
    help = f"list notifications, the newest first, among the newest {LOOKED_AT:,} or those of the users"
    examples = ("list", "list --kind news --older-than 30d --json", "list --user 7 --limit 100")

    def add_arguments(self, parser: CommandParser) -> None:
        _add_filters(parser)
        parser.add_argument("--limit", type=at_least_one, default=LISTED, metavar="N", help=f"default: {LISTED}")

    def run(self, **options: Any) -> Result:
        columns = ("id", "user_id", "kind", "created_at", "read_at")
        rows = list(_meant(options).newest(LOOKED_AT).values(*columns)[: options["limit"]])
        return Result(text=lambda: _as_table(rows), data=[{**row, **_as_texts(row)} for row in rows])


class Delete(Subcommand):
    """Deletes many notifications."""

    name = "delete"
    help = "delete notifications, page by page; unread numbers fall with them"
    examples = (
        "delete --kind news --older-than 30d --dry-run",
        'delete --kind news --expect 12000 --why "sent by mistake"',
        "delete --user 7",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        _add_filters(parser)
        parser.add_argument("--all", action="store_true", help="every notification")
        trial = parser.add_mutually_exclusive_group()
        trial.add_argument("--dry-run", action="store_true", help="say how many it would be, and change nothing")
        trial.add_argument("--expect", type=from_zero, metavar="N", help="change nothing if there are more than N")
        said.add_arguments(parser)

    def run(self, *, expect: int | None, **options: Any) -> Result:
        meant = _meant(options)
        if (meant == bulk.Meant()) != options["all"]:
            raise ValueError("Say which: --kind, --user, --older-than; or --all alone for every notification.")
        if options["dry_run"]:
            number = bulk.count(meant)
            text = f"{number:,} notification{pluralize(number)} would be deleted: repeat it with --expect {number}."
            return Result(text=lambda: text, data={"would_delete": number})
        if expect is not None and (number := bulk.count(meant)) > expect:
            raise ValueError(f"There are {number:,}, and no more than {expect:,} were expected: nothing was deleted.")
        try:
            deleted = actions.delete_notifications(acting.of_shell(options["who"]), meant, why=options.get("why", ""))
        except IntegrityError as error:  # Django's ProtectedError is a subclass
            reason = str(error.args[0]).splitlines()[0]
            raise ValueError(
                f"Another table refers to some of them, and forbids it ({reason}): pages that went before stay deleted."
            ) from error
        text = f"{deleted:,} notification{pluralize(deleted)} deleted."
        return Result(text=lambda: text, data={"deleted": deleted})


class Forget(Subcommand):
    """Removes what is stored of a user."""

    name = "forget"
    help = "delete a user's notifications and unread number, those that are being written included"
    examples = ('forget 7 --why "Request 4711 to be deleted" --who Ada',)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", type=_user, metavar="ID", help="the key of the user")
        said.add_arguments(parser, wants_reason=True)

    def run(self, *, user: UserKey, who: str | None, why: str, **_options: Any) -> Result:
        actions.forget_user(acting.of_shell(who), user, why=why)
        text = "The user is forgotten. What is left goes within seconds, while the workers run."
        return Result(text=lambda: text, data={"user": str(user)})


class Command(ActionCommand):
    help = "List notifications, delete many of them, or forget a user."
    actions = (List(), Delete(), Forget())
    refusals: ClassVar = (ValueError, acting.ActRefused)


def _as_texts(row: dict[str, Any]) -> dict[str, Any]:
    """Return, as texts, the values for which JSON has no type."""
    times = {name: row[name] and row[name].isoformat() for name in ("created_at", "read_at")}
    return {"user_id": row["user_id"] if isinstance(row["user_id"], int) else str(row["user_id"]), **times}


def _as_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No notification meets that."
    table = terminal.table("id", "user", "kind", "written (UTC)", "", numbers=("id",))
    for row in rows:
        state = "read" if row["read_at"] else "unread"
        at = f"{row['created_at']:%Y-%m-%d %H:%M:%S}"
        table.add_row(
            str(row["id"]), terminal.printable(str(row["user_id"])), terminal.printable(row["kind"]), at, state
        )
    return terminal.rendered(table)
