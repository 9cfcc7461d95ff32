import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import reduce
from operator import or_
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.db.models.functions import Now
from django.template.defaultfilters import pluralize
from django.utils.text import Truncator
from rich.text import Text

from ratelimit import site_names
from ratelimit.models import Site
from ratelimit.rates import parse_duration
from ratelimit.sites import UnknownSite, unknown_site
from workers.cli import terminal
from workers.cli.arguments import at_least_one, row_id
from workers.fetches.cancelling import cancel
from workers.fetches.models import ACTIVE, Fetch, State
from workers.fetches.retrying import retry_failed

FILTERS = ("site", "status", "error", "since")
LISTED = 20
SHOWN = 200  # characters of a text in the table; --json has all of them
LISTED_FIELDS = ("state", "status_code", "url", "error")
LIST = (
    "List fetches, the newest first. IDs, --since, and --state of what has not ended are looked up; for anything else "
    "the fetches are read from the newest on, until N are found: where few match, that may be all of them."
)
COLUMNS = ("id", "state", "status", "URL", "error")


class Command(BaseCommand):
    help = "List fetches, queue failed ones again, or take back those that have not started."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="{list,retry,cancel}")

        shown = actions.add_parser("list", help="list fetches, the newest first", description=LIST)
        shown.add_argument("ids", type=ids, nargs="*", metavar="ID", help="these only; 17-42 means all of 17 to 42")
        shown.add_argument("--state", choices=[state.value for state in State], help="those in this state now")
        _add_filters(shown)
        shown.add_argument(
            "--limit", type=at_least_one, default=LISTED, metavar="N", help=f"the N newest of them (default {LISTED})"
        )
        shown.add_argument("--json", action="store_true", help="one JSON object instead of a table")

        retry = actions.add_parser("retry", help="queue failed fetches again, from their own URLs, as if they were new")
        retry.add_argument("ids", type=row_id, nargs="*", metavar="ID", help="these only")
        _add_filters(retry)
        retry.add_argument("--all", action="store_true", help="every failed fetch")
        retry.add_argument("--limit", type=at_least_one, metavar="N", help="the N oldest of them; default: all of them")
        retry.add_argument("--json", action="store_true", help="one JSON object instead of sentences")

        take_back = actions.add_parser("cancel", help="take fetches back; their slots go to others")
        take_back.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")
        take_back.add_argument("--json", action="store_true", help="one JSON object instead of sentences")

    def handle(self, *_args: object, **options: Any) -> None:
        filters = {name: options.get(name) for name in FILTERS}
        match options["action"]:
            case "list":
                self._list(_named(options["ids"]) & _filtered(**filters), **options)
            case "cancel":
                self._cancel(options["ids"], as_json=options["json"])
            case "retry" if options["ids"]:
                if options["limit"] or options["all"] or any(value is not None for value in filters.values()):
                    raise CommandError("Give IDs, or say which fetches are meant: not both.")
                self._retry(Q(pk__in=options["ids"]), set(options["ids"]), **options)
            case _:
                if not (options["all"] or any(filters.values())):
                    raise CommandError(
                        "Say which: IDs, --site, --status, --error, --since; or --all for every failed fetch."
                    )
                self._retry(_filtered(**filters), set(), **options)

    def _list(self, meant: Q, *, state: str | None, limit: int, **options: Any) -> None:
        """List the newest of those that are meant, and say whether there are more."""
        if state:
            meant &= Q(state=state)
        fetches = list(Fetch.objects.filter(meant).order_by("-pk").only(*LISTED_FIELDS)[: limit + 1])
        more = len(fetches) > limit
        if options["json"]:
            data = [_as_data(fetch) for fetch in fetches[:limit]]
            self.stdout.write(json.dumps({"fetches": data, "more": more}))
        elif not fetches:
            self.stdout.write("No fetches.")
        else:
            self.stdout.write(_as_table(fetches[:limit]), ending="")
            if more:
                self.stdout.write("Older ones are not shown: --limit N shows N.")

    def _retry(self, meant: Q, named: set[int], *, limit: int | None, **options: Any) -> None:
        """Retry those that are meant; raises an error at the end for each that was named and has not failed."""
        not_failed = sorted(named.difference(Fetch.objects.failed().filter(meant).values_list("pk", flat=True)))
        retried = retry_failed(Fetch.objects.filter(meant), limit=limit)
        if options["json"]:
            self.stdout.write(json.dumps({**asdict(retried), "not_failed": not_failed}))
        else:
            self.stdout.write("\n".join(retried.sentences()))
        if not_failed:
            raise CommandError(f"Not failed, or not there: {_listed(not_failed)}.")

    def _cancel(self, ids: Iterable[int], *, as_json: bool) -> None:
        """Cancel each by itself; raises an error at the end that says which could not be cancelled."""
        cancelled: list[int] = []
        refused: list[int] = []
        for fetch_id in dict.fromkeys(ids):
            (cancelled if cancel(fetch_id) else refused).append(fetch_id)
        states = dict(Fetch.objects.filter(pk__in=refused).values_list("pk", "state"))
        if as_json:
            too_late = [fetch_id for fetch_id in refused if fetch_id in states]
            unknown = [fetch_id for fetch_id in refused if fetch_id not in states]
            self.stdout.write(json.dumps({"cancelled": cancelled, "too_late": too_late, "unknown": unknown}))
        else:
            self.stdout.write(f"{len(cancelled):,} fetch{pluralize(cancelled, 'es')} cancelled.")
        if refused:
            raise CommandError("\n".join(_refusal(fetch_id, states.get(fetch_id)) for fetch_id in refused))


def text(given: str) -> str:
    """Read a text that PostgreSQL can take: bytes of a command line that are not UTF-8 arrive as lone surrogates."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it must be text in UTF-8") from None
    if "\0" in given:
        raise argparse.ArgumentTypeError("it must not contain NUL")
    return given


def ids(given: str) -> tuple[int, int]:
    """Read one id, or the first and the last of several, in the form that `manage.py fetch` prints."""
    first, dash, last = given.partition("-")
    low, high = row_id(first), row_id(last if dash else first)
    if low > high:
        raise argparse.ArgumentTypeError(f"must be FIRST-LAST, not {given!r}")
    return low, high


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--site", metavar="HOST", help="those that ended at this site, or go to it")
    parser.add_argument("--status", type=at_least_one, metavar="CODE", help="those whose last answer had this status")
    parser.add_argument(
        "--error", type=text, metavar="TEXT", help="those whose error contains this, in upper or lower case"
    )
    parser.add_argument("--since", metavar="2h", help="those that ended so long ago at most: 90s, 10m, 2h, 1d")


def _named(ranges: Iterable[tuple[int, int]]) -> Q:
    """Return the condition that a fetch is in one of these ranges; without ranges, one that all fetches meet."""
    return reduce(or_, (Q(pk__range=ends) for ends in ranges), Q())


def _filtered(*, site: str | None, status: int | None, error: str | None, since: str | None) -> Q:
    """Return the condition that all given filters make together."""
    meant = Q()
    try:
        if site:
            meant &= Q(site=_site(site))
        if status:
            meant &= Q(status_code=status)
        if error:
            meant &= Q(error__icontains=error)
        if since:
            meant &= Q(finished_at__gte=Now() - parse_duration(since))
    except (ValueError, UnknownSite) as refusal:
        raise CommandError(str(refusal)) from refusal
    return meant


def _site(host: str) -> Site:
    try:
        return Site.objects.get(name=site_names.canonical(host))
    except Site.DoesNotExist as error:
        raise unknown_site(host) from error


def _as_table(fetches: Iterable[Fetch]) -> str:
    table = terminal.table(*COLUMNS, numbers=("id", "status"))
    for column in table.columns:
        column.no_wrap = column.header not in {"URL", "error"}
    for fetch in fetches:
        texts = (Text(terminal.printable(Truncator(text).chars(SHOWN))) for text in (fetch.url, fetch.error))
        table.add_row(str(fetch.pk), fetch.state, str(fetch.status_code or ""), *texts)
    return terminal.rendered(table)


def _as_data(fetch: Fetch) -> dict[str, object]:
    return {
        "id": fetch.pk,
        "state": fetch.state,
        "status": fetch.status_code,
        "url": fetch.url,
        "error": fetch.error,
    }


def _refusal(fetch_id: int, state: str | None) -> str:
    if state is None:
        return f"There is no fetch {fetch_id}."
    if state in ACTIVE:
        return f"Fetch {fetch_id} was not cancelled: it is about to start, or in flight."
    return f"Fetch {fetch_id} had ended already: {state}."


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))
