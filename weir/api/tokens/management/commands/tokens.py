from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.db.models.functions import Now

from weir.api.tokens import actions as acts
from weir.api.tokens.models import Token
from weir.api.tokens.scopes import SCOPES
from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import at_least_one, duration, utf8


class List(Subcommand):
    """All tokens."""

    name = "list"
    help = "list tokens, with what they may do, and until when"
    examples = ("list", "list --json")

    def run(self, **_options: Any) -> Result:
        tokens = Token.objects.annotate(now=Now()).order_by("name")
        rows = [_as_data(token) for token in tokens]
        return Result(text=lambda: "\n".join(map(_line, rows)) if rows else "No tokens.", data={"tokens": rows})


class Create(Subcommand):
    """A new token."""

    name = "create"
    help = "create a token, and show its secret once"
    description = "Create a token, and show its secret once. Scopes: " + "; ".join(
        f"{scope} ({what})" for scope, what in SCOPES.items()
    )
    examples = (
        "create shop --scope weir_fetches.add_fetch --scope weir_fetches.view_fetch",
        "create shop-2 --scope weir_watches.add_watch --replaces shop",
        "create reports --scope weir_ops.view --expires 30d --rate 1/s --why 'for the weekly report'",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("of_name", type=utf8, metavar="NAME", help="of the program, as the audit trail names it")
        parser.add_argument("--scope", action="append", default=[], metavar="SCOPE", help="may be given several times")
        parser.add_argument(
            "--expires", type=duration, default=acts.DEFAULT_LIFE, metavar="90d", help="after so long; 366d at most"
        )
        parser.add_argument(
            "--rate", default=acts.DEFAULT_RATE, metavar="RATE", help=f"of requests (default {acts.DEFAULT_RATE})"
        )
        parser.add_argument(
            "--burst",
            type=at_least_one,
            default=acts.DEFAULT_BURST,
            metavar="N",
            help=f"requests that may follow each other at once (default {acts.DEFAULT_BURST})",
        )
        parser.add_argument(
            "--replaces",
            type=utf8,
            metavar="NAME",
            help="another token of the same program, whose watches and batches it goes on with",
        )
        said.add_arguments(parser)

    def run(
        self, *, of_name: str, scope: Sequence[str], expires: timedelta, who: str | None, why: str = "", **options: Any
    ) -> Result:
        more = {name: options[name] for name in ("rate", "burst", "replaces")}
        created = acts.create(acting.of_shell(who), of_name, scope, life=expires, why=why, **more)
        token = created.token
        return Result(
            text=lambda: (
                f"{created.secret}\n\nIt is not shown again. It expires at {token.expires_at:%Y-%m-%d %H:%M} UTC."
            ),
            data={"name": token.name, "token": created.secret, "expires_at": token.expires_at.isoformat()},
        )


class Revoke(Subcommand):
    """The end of a token."""

    name = "revoke"
    help = "revoke a token: its next request is refused"
    examples = ("revoke shop", "revoke shop --why 'it was in a log'")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("of_name", type=utf8, metavar="NAME", help="of the token")
        said.add_arguments(parser)

    def run(self, *, of_name: str, who: str | None, why: str = "", **_options: Any) -> Result:
        is_done = acts.revoke(acting.of_shell(who), of_name, why=why)
        text = "It is revoked: the next request with it is refused." if is_done else "It was revoked already."
        return Result(text=lambda: text, data={"revoked": is_done})


class Command(ActionCommand):
    help = "List, create and revoke the tokens by which programs use the HTTP API."
    actions = (List(), Create(), Revoke())
    refusals = (ValueError, acts.UnknownToken, acting.ActRefused)


def _as_data(token: Token) -> dict[str, Any]:
    now = vars(token)["now"]
    state = "revoked" if token.revoked_at else "expired" if token.expires_at <= now else "valid"
    return {
        "name": token.name,
        "state": state,
        "scopes": token.scopes,
        "expires_at": token.expires_at.isoformat(),
        "last_used_at": token.last_used_at and token.last_used_at.isoformat(),
        "site": token.site,
    }


def _line(row: dict[str, Any]) -> str:
    used = f"last used {row['last_used_at']}" if row["last_used_at"] else "never used"
    return terminal.printable(
        f"{row['name']}  {row['state']}  until {row['expires_at']}  {used}  {row['site']}  {', '.join(row['scopes'])}"
    )
