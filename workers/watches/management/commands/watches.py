from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, ClassVar

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize
from django.utils.text import Truncator
from rich.text import Text

from weir.conf.texts.request_headers import written_headers
from weir.workers.audit import acting, said
from weir.workers.cli import terminal
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import at_least_one, duration, header, one_of, row_id, share, utf8, whole_number
from weir.workers.watches import actions, listing
from weir.workers.watches.models import Watch

LISTED = 20
SHOWN = 200  # characters of a text in the table; --json has all of them


class List(Subcommand):
    """List watches."""

    name = "list"
    help = "list watches, the newest first"
    examples = ("list", "list --state failing --json", "list --host example.com --limit 100")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", type=utf8, default="", metavar="HOST", help="only those of this host")
        parser.add_argument(
            "--state",
            type=one_of(listing.STATES, "state"),
            metavar="STATE",
            help=f"only those that are {' or '.join(listing.STATES)}",
        )
        parser.add_argument("--key", type=utf8, default="", metavar="KEY", help="only the one with this key, or URL")
        parser.add_argument(
            "--limit", type=at_least_one, default=LISTED, metavar="N", help=f"the first N of them (default {LISTED})"
        )
        parser.add_argument("--after", metavar="CURSOR", help="go on where a list ended, which has told its cursor")

    def run(self, *, limit: int, after: str | None, **options: Any) -> Result:
        wanted = listing.WatchFilters(**{name: options[name] or "" for name in ("host", "state", "key")})
        page = listing.watch_list(wanted, after, most=limit)
        hint = f"There are more: --after {page.next} goes on." if page.next else ""
        return Result(
            text=lambda: (_table(page.watches) if page.watches else "No watches.") + hint,
            data={"watches": [listing.as_data(watch) for watch in page.watches], "next": page.next},
        )


class Show(Subcommand):
    """Show one watch."""

    name = "show"
    help = "show everything about one watch"
    examples = ("show 17", "show 17 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")

    def run(self, **options: Any) -> Result:
        watch = listing.watch_with(options["id"])
        headers = written_headers(watch.request_headers or {})
        shown = {name: "" if value is None else str(value) for name, value in listing.as_data(watch).items()}
        lines = {**shown, "headers": ", ".join(headers)}
        return Result(
            text=lambda: "\n".join(
                terminal.fields({name: terminal.printable(value) for name, value in lines.items() if value})
            ),
            data={**listing.as_data(watch), "headers": headers},
        )


class Add(Subcommand):
    """Watch a URL."""

    name = "add"
    help = "watch a URL, or change the watch that has its key"
    examples = (
        "add https://example.com/prices --every 1h",
        "add https://example.com/prices --every 1h --shortest 10m --longest 1d --on-change shop.tasks.changed",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", type=utf8, metavar="URL")
        parser.add_argument("--every", type=duration, required=True, metavar="1h", help="its period: 90s, 10m, 2h, 1d")
        parser.add_argument("--key", type=utf8, metavar="KEY", help="its name; default: the URL")
        parser.add_argument(
            "--jitter", type=float, default=0.1, metavar="PART", help="of the period, 0 to 0.5 (default 0.1)"
        )
        parser.add_argument("--shortest", type=duration, metavar="10m", help="the period adapts, down to this one")
        parser.add_argument("--longest", type=duration, metavar="1d", help="and up to this one")
        parser.add_argument("--priority", type=whole_number, default=0, metavar="N", help="higher goes first")
        parser.add_argument(
            "--header",
            type=header,
            action="append",
            default=[],
            metavar="'NAME: VALUE'",
            help="a header of its requests, beside those of the site; repeat it for more",
        )
        parser.add_argument(
            "--no-revalidate",
            dest="revalidate",
            action="store_false",
            help="ask for the whole body each time, for a site that answers 304 though its page has changed",
        )
        parser.add_argument("--share", type=share, metavar="NAME", help="whose its fetches are: shares take turns")
        parser.add_argument("--on-change", type=utf8, metavar="TASK", help="the Celery task that is called")
        parser.add_argument("--tell-first", action="store_true", help="call it for the first body, too")
        said.add_arguments(parser)

    def run(self, *, shortest: timedelta | None, longest: timedelta | None, **options: Any) -> Result:
        if (shortest is None) is not (longest is None):
            raise ValueError("Give --shortest and --longest, or none of them.")
        named = ("every", "key", "jitter", "priority", "revalidate", "on_change", "tell_first", "share")
        watch = actions.add(
            acting.of_shell(options["who"]),
            options["url"],
            why=options.get("why", ""),
            adapt=None if shortest is None else (shortest, longest),
            headers=dict(options["header"]),
            **{name: options[name] for name in named},
        )
        return Result(text=lambda: f"Watch {watch.pk}: {terminal.printable(watch.url)}", data=listing.as_data(watch))


class _Each(Subcommand):
    """Do something to each of some watches."""

    done: ClassVar[str]
    act: ClassVar[Callable[..., None]]

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")
        said.add_arguments(parser)

    def run(self, **options: Any) -> Result:
        actor = acting.of_shell(options["who"])
        done: list[int] = []
        refused: list[str] = []
        for watch_id in dict.fromkeys(options["ids"]):
            try:
                type(self).act(actor, watch_id, why=options.get("why", ""))
            except listing.UnknownWatch as error:
                refused.append(str(error))
            else:
                done.append(watch_id)
        return Result(
            text=lambda: f"{len(done):,} watch{pluralize(done, 'es')} {self.done}.",
            data={self.done: done},
            refused=refused,
        )


class Remove(_Each):
    """Remove watches."""

    name = "remove"
    help = "remove watches; a fetch that is unfinished ends, and calls nothing"
    examples = ("remove 17 18", "remove 17 --why 'the page is gone'")
    done = "removed"
    act = staticmethod(actions.remove)


class Pause(_Each):
    """Pause watches."""

    name = "pause"
    help = "ask for these pages no more, until they are resumed"
    examples = ("pause 17",)
    done = "paused"
    act = staticmethod(actions.pause)


class Resume(_Each):
    """Resume watches."""

    name = "resume"
    help = "ask for the pages of paused watches now, and again in each period"
    examples = ("resume 17",)
    done = "resumed"
    act = staticmethod(actions.resume)


class Command(ActionCommand):
    help = "List and show watches, add or change one, remove, pause or resume some."
    actions = (List(), Show(), Add(), Remove(), Pause(), Resume())
    refusals: ClassVar = (ValueError, TypeError, listing.UnknownWatch, acting.ActRefused)


def _table(watches: Iterable[Watch]) -> str:
    table = terminal.table("id", "state", "period", "next", "changed", "URL", "error", numbers=("id",))
    for column in table.columns:
        column.no_wrap = column.header not in {"URL", "error"}
    for watch in watches:
        texts = (Text(terminal.printable(Truncator(text).chars(SHOWN))) for text in (watch.url, watch.error))
        moments = (
            moment.strftime("%Y-%m-%d %H:%M:%S") if moment else "" for moment in (watch.next_at, watch.changed_at)
        )
        table.add_row(
            str(watch.pk), listing.state_of(watch), terminal.span(watch.period.total_seconds()), *moments, *texts
        )
    return terminal.rendered(table)
