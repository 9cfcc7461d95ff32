"""`manage.py fetches list`: a list of fetches, with the filters of the operators' page."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q
from django.utils import timezone

from weir.workers.cli.actions import Result, Subcommand
from weir.workers.cli.arguments import at_least_one, one_of, row_id, utf8
from weir.workers.fetches.management import fetch_text
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports import fetch_filters
from weir.workers.fetches.reports.fetch_list import LOOKED_AT, ROWS, ListedFetch, fetch_list, listed

LISTED = 20


class List(Subcommand):
    """List fetches."""

    name = "list"
    help = "list fetches, the newest first, or those that meet all filters"
    description = (
        "List fetches, the newest first. With filters, those that are reserved or running come first, then those that "
        "are queued, then those that ended, the last end first; with a URL or its beginning, in the order of URLs. "
        f"Each list is read by an index; where few of them meet the filters, it stops after {LOOKED_AT:,} and says so: "
        "--after goes on."
    )
    examples = (
        "list",
        "list 17-1016 --state failed --json",
        "list --state failed --site example.com --status 503 --since 2h --limit 100",
        "list --site example.com --url /cart/",
        'list --state failed --state cancelled --url "https://example.com/*" --until 2026-01-31T12:00Z',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", type=ids, nargs="*", metavar="ID", help="only these; 17-42 means all from 17 to 42")
        states = ", ".join(FetchState)
        parser.add_argument(
            "--state",
            type=one_of(FetchState, "state"),
            action="append",
            metavar="STATE",
            help=f"only those that are {states}; may be given several times",
        )
        parser.add_argument("--site", metavar="HOST", help="only those that ended at this site, or go to it")
        parser.add_argument(
            "--status", type=_filter("status"), metavar="CODE", help="only those whose last answer had this status"
        )
        parser.add_argument(
            "--error",
            type=utf8,
            metavar="TEXT",
            help="only those whose error contains this, in upper or lower case; * at its end: begins with it",
        )
        parser.add_argument(
            "--url",
            type=utf8,
            metavar="URL",
            help="only those that were asked for this URL; * at its end: for a URL that begins so; "
            "without http://: for a URL that contains it",
        )
        parser.add_argument(
            "--since",
            type=_filter("since"),
            metavar="2h",
            help="only those that ended since then: a time, or how long ago, such as 2h",
        )
        parser.add_argument(
            "--until",
            type=_filter("until"),
            metavar="1h",
            help="only those that ended until then, written as for --since",
        )
        parser.add_argument(
            "--batch", type=utf8, metavar="NAME", help="only those of this batch, failed before done ones"
        )
        parser.add_argument("--share", type=utf8, metavar="NAME", help="only those of this share")
        parser.add_argument("--reference", type=utf8, metavar="TEXT", help="only those that their caller calls so")
        parser.add_argument(
            "--limit", type=at_least_one, default=LISTED, metavar="N", help=f"the first N of them (default {LISTED})"
        )
        parser.add_argument("--after", metavar="CURSOR", help="go on where a list ended, which has told its cursor")

    def run(self, *, limit: int, after: str | None, **options: Any) -> Result:
        texts = {name: [options[name] or ""] for name in fetch_filters.NAMES} | {"state": options["state"] or []}
        filters = fetch_filters.read(texts, timezone.now())
        if options["ids"] and after:
            raise ValueError("Give IDs, or --after: not both.")
        if options["ids"]:
            return _of_ids(_named(options["ids"]) & filters.condition(), limit)
        page = fetch_list(filters, after, most=min(limit, ROWS))
        fetches = [*page.fetches]
        while page.next and not page.looked_at and len(fetches) < limit:
            page = fetch_list(filters, page.next, most=min(limit - len(fetches), ROWS))
            fetches += page.fetches
        hint = f"{page.note or 'There are more: --limit N shows N.'} --after {page.next} goes on." if page.next else ""
        return _listed(fetches, hint, page.next)


def _filter(name: str) -> Callable[[str], str]:
    """Return an argument type that refuses the texts that the filter of that name refuses."""

    def checked(text: str) -> str:
        try:
            fetch_filters.read({name: [text]}, timezone.now())
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return text

    return checked


def _of_ids(meant: Q, limit: int) -> Result:
    found = list(Fetch.objects.filter(meant).order_by("-pk").values_list("pk", flat=True)[: limit + 1])
    return _listed(listed(found[:limit]), "There are more: --limit N shows N." if len(found) > limit else "")


def _listed(fetches: Sequence[ListedFetch], hint: str, cursor: str | None = None) -> Result:
    data = {"fetches": [fetch_text.as_data(fetch) for fetch in fetches], "more": bool(hint), "next": cursor}
    return Result(
        text=lambda: (fetch_text.as_table(fetches) if fetches else "No fetches." + " " * bool(hint)) + hint, data=data
    )


def ids(given: str) -> tuple[int, int]:
    """Read one id, or the first and the last of several, in the form that `manage.py fetch` prints."""
    first, dash, last = given.partition("-")
    low, high = row_id(first), row_id(last if dash else first)
    if low > high:
        raise argparse.ArgumentTypeError(f"must be FIRST-LAST, not {given!r}")
    return low, high


def _named(ranges: Iterable[tuple[int, int]]) -> Q:
    """Return the condition that a fetch is in one of these ranges; without ranges, one that all fetches meet."""
    return reduce(or_, (Q(pk__range=ends) for ends in ranges), Q())
