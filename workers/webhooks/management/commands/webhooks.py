from collections.abc import Callable
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize
from django.utils.text import Truncator
from rich.text import Text

from weir.ratelimit.sites import SitesLocked
from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import one_of, row_id, utf8
from weir.workers.events.log import NoEvents
from weir.workers.webhooks import actions, listing
from weir.workers.webhooks.endpoints import TYPES, UnknownEndpoint
from weir.workers.webhooks.listing import MOST_BEHIND, ListedEndpoint

SHOWN = 200  # characters of a text in the table; --json has all of them


class List(Subcommand):
    """List the endpoints."""

    name = "list"
    help = "list the endpoints to which webhooks are sent"
    examples = ("list", "list --json")

    def run(self, **_options: Any) -> Result:
        found = listing.endpoint_list()
        return Result(
            text=lambda: _table(found) if found else "No endpoints.",
            data={"endpoints": [listing.as_data(endpoint) for endpoint in found]},
        )


class Show(Subcommand):
    """Show one endpoint."""

    name = "show"
    help = "show everything about one endpoint"
    examples = ("show 3", "show 3 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")

    def run(self, **options: Any) -> Result:
        found = listing.endpoint_with(options["id"])
        data = listing.as_data(found)
        lines = {**data, "types": ", ".join(found.row.types) or "all", "behind": _behind(found)}
        shown = {name: terminal.printable(str(value)) for name, value in lines.items() if value not in {None, ""}}
        return Result(text=lambda: "\n".join(terminal.fields(shown)), data=data)


class Add(Subcommand):
    """Make or change an endpoint."""

    name = "add"
    help = "have webhooks sent to a URL, or change the endpoint of this name"
    examples = (
        "add orders https://example.com/weir --secret ORDERS",
        "add orders https://example.com/weir --secret ORDERS --type fetch.done --type fetch.failed",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", type=utf8, metavar="NAME", help="its name")
        parser.add_argument("url", type=utf8, metavar="URL")
        parser.add_argument(
            "--secret", type=utf8, required=True, metavar="NAME", help="the name of the secret whose keys sign"
        )
        parser.add_argument(
            "--type",
            dest="types",
            type=one_of(TYPES, "type"),
            action="append",
            default=[],
            metavar="TYPE",
            help=f"only events of this type; repeat it for more: {', '.join(TYPES)}",
        )
        said.add_arguments(parser)

    def run(self, **options: Any) -> Result:
        actor = acting.of_shell(options["who"])
        named = {name: options[name] for name in ("secret", "types")}
        row = actions.add(actor, options["name"], options["url"], why=options.get("why", ""), **named)
        data = listing.as_data(listing.endpoint_with(row.pk))
        return Result(text=lambda: f"Endpoint {row.pk}: {terminal.printable(row.url)}", data=data)


class _Each(Subcommand):
    """Do something to each of some endpoints."""

    done: ClassVar[str]
    act: ClassVar[Callable[..., object]]

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")
        said.add_arguments(parser)

    def run(self, **options: Any) -> Result:
        actor = acting.of_shell(options["who"])
        done: list[int] = []
        refused: list[str] = []
        for endpoint_id in dict.fromkeys(options["ids"]):
            try:
                type(self).act(actor, endpoint_id, why=options.get("why", ""))
            except (ValueError, UnknownEndpoint) as error:
                refused.append(str(error))
            else:
                done.append(endpoint_id)
        return Result(
            text=lambda: f"{len(done):,} endpoint{pluralize(done)} {self.done}.",
            data={self.done: done},
            refused=refused,
        )


class Remove(_Each):
    """Remove endpoints."""

    name = "remove"
    help = "remove endpoints; their webhooks that have not started are cancelled"
    examples = ("remove 3", "remove 3 --why 'the receiver is gone'")
    done = "removed"
    act = staticmethod(actions.remove)


class Pause(_Each):
    """Pause endpoints."""

    name = "pause"
    help = "send nothing to these endpoints, until they are resumed"
    examples = ("pause 3",)
    done = "paused"
    act = staticmethod(actions.pause)


class Resume(_Each):
    """Resume endpoints."""

    name = "resume"
    help = "send to paused endpoints what has waited, and go on"
    examples = ("resume 3",)
    done = "resumed"
    act = staticmethod(actions.resume)


class Test(_Each):
    """Test endpoints."""

    name = "test"
    help = "send a webhook of the type webhook.test"
    examples = ("test 3",)
    done = "tested"
    act = staticmethod(actions.send_test)


class Command(ActionCommand):
    help = "List and show endpoints of webhooks, add or change one, remove, pause, resume or test some."
    actions = (List(), Show(), Add(), Remove(), Pause(), Resume(), Test())
    refusals: ClassVar = (ValueError, UnknownEndpoint, NoEvents, SitesLocked, acting.ActRefused)


def _table(found: list[ListedEndpoint]) -> str:
    table = terminal.table(
        "id", "name", "state", "behind", "unfinished", "URL", "error", numbers=("id", "behind", "unfinished")
    )
    for column in table.columns:
        column.no_wrap = column.header not in {"name", "URL", "error"}
    for one in found:
        name, url, error = (
            Text(terminal.printable(Truncator(text).chars(SHOWN))) for text in (one.row.name, one.row.url, one.error)
        )
        table.add_row(str(one.row.pk), name, one.state, _behind(one), f"{one.unfinished:,}", url, error)
    return terminal.rendered(table)


def _behind(one: ListedEndpoint) -> str:
    return f"{one.behind:,}" if one.behind <= MOST_BEHIND else f"more than {MOST_BEHIND:,}"
