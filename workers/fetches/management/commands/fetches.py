import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.db.models.functions import Now

from ratelimit import lanes
from ratelimit.models import Site
from ratelimit.rates import parse_duration
from ratelimit.slots import UnknownSite, unknown_site
from workers.arguments import at_least_one, row_id
from workers.fetches.enqueue import cancel
from workers.fetches.models import ACTIVE, Fetch
from workers.fetches.retrying import retry_failed

FILTERS = ("site", "status", "error", "since")


class Command(BaseCommand):
    help = "Queue failed fetches again, or take back fetches that have not started."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="{retry,cancel}")

        retry = actions.add_parser("retry", help="queue failed fetches again, from their own URLs, as if they were new")
        retry.add_argument("ids", type=row_id, nargs="*", metavar="ID")
        retry.add_argument("--site", metavar="HOST", help="those that failed at this site")
        retry.add_argument(
            "--status", type=at_least_one, metavar="CODE", help="those whose last answer had this status"
        )
        retry.add_argument(
            "--error", type=text, metavar="TEXT", help="those whose error contains this, in upper or lower case"
        )
        retry.add_argument("--since", metavar="2h", help="those that failed so long ago at most: 90s, 10m, 2h, 1d")
        retry.add_argument("--all", action="store_true", help="every failed fetch")
        retry.add_argument("--limit", type=at_least_one, metavar="N", help="the N oldest of them; default: all of them")
        retry.add_argument("--json", action="store_true", help="one JSON object instead of sentences")

        take_back = actions.add_parser("cancel", help="take fetches back; their slots go to others")
        take_back.add_argument("ids", type=row_id, nargs="+", metavar="ID")
        take_back.add_argument("--json", action="store_true", help="one JSON object instead of sentences")

    def handle(self, *_args: object, **options: Any) -> None:
        if options["action"] == "cancel":
            self._cancel(options["ids"], as_json=options["json"])
        elif options["ids"]:
            if options["limit"] or options["all"] or any(options[name] is not None for name in FILTERS):
                raise CommandError("Give IDs, or say which fetches are meant: not both.")
            self._retry(Q(pk__in=options["ids"]), set(options["ids"]), **options)
        else:
            self._retry(_meant(**options), set(), **options)

    def _retry(self, meant: Q, named: set[int], *, limit: int | None, **options: Any) -> None:
        """Retry those that are meant; what was named but has not failed is said at the end."""
        not_failed = sorted(named.difference(Fetch.objects.failed().filter(meant).values_list("pk", flat=True)))
        retried = retry_failed(Fetch.objects.filter(meant), limit=limit)
        if options["json"]:
            self.stdout.write(json.dumps({**asdict(retried), "not_failed": not_failed}))
        else:
            self.stdout.write("\n".join(retried.sentences()))
        if not_failed:
            raise CommandError(f"Not failed, or not there: {_listed(not_failed)}.")

    def _cancel(self, ids: Iterable[int], *, as_json: bool) -> None:
        """Cancel each by itself; what could not be is said at the end."""
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
            self.stdout.write(f"{len(cancelled):,} {'fetch' if len(cancelled) == 1 else 'fetches'} cancelled.")
        if refused:
            raise CommandError("\n".join(_refusal(fetch_id, states.get(fetch_id)) for fetch_id in refused))


def text(given: str) -> str:
    """Read what PostgreSQL can compare with: bytes of a command line that are not UTF-8 arrive as lone surrogates."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it must be text in UTF-8") from None
    if "\0" in given:
        raise argparse.ArgumentTypeError("it must not contain NUL")
    return given


def _meant(*, site: str | None, status: int | None, error: str | None, since: str | None, **options: Any) -> Q:
    """Return what all of the given filters say; raises CommandError without any."""
    if not (site or status or error or since or options["all"]):
        raise CommandError("Say which: IDs, --site, --status, --error, --since; or --all for every failed fetch.")
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
        return Site.objects.get(name=lanes.canonical(host))
    except Site.DoesNotExist as error:
        raise unknown_site(host) from error


def _refusal(fetch_id: int, state: str | None) -> str:
    if state is None:
        return f"There is no fetch {fetch_id}."
    if state in ACTIVE:
        return f"Fetch {fetch_id} was not cancelled: it is about to start, or under way."
    return f"Fetch {fetch_id} had ended already: {state}."


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))
