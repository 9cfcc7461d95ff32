import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any, BinaryIO, ClassVar

from django.core.management.base import CommandParser
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.template.defaultfilters import pluralize

from weir.ratelimit import site_names
from weir.ratelimit.models import Site
from weir.ratelimit.sites import UnknownSite, unknown_site
from weir.workers.audit import acting, said
from weir.workers.cli.actions import ActionCommand, Result, Subcommand
from weir.workers.cli.arguments import at_least_one, duration, from_zero, row_id, utf8
from weir.workers.events.ended import REFUSALS, Ended
from weir.workers.events.models import Subject
from weir.workers.fetches.actions import fetches as actions
from weir.workers.fetches.batches.counts import UnknownBatch, id_of
from weir.workers.fetches.management import fetch_text
from weir.workers.fetches.management.listing import List
from weir.workers.fetches.models import ACTIVE, BodyGone, BodyUnreachable, Fetch
from weir.workers.fetches.reports.fetch_filters import error_like
from weir.workers.fetches.reports.fetch_way import fetch_way
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch
from weir.workers.fetches.reports.why import why

FILTERS = ("site", "status", "error", "since", "batch", "share", "reference")


class Show(Subcommand):
    """Show one fetch."""

    name = "show"
    help = "show everything about one fetch, or write its body to stdout"
    examples = ("show 17", "show 17 --json", "show 17 --body")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")
        parser.add_argument(
            "--body", action="store_true", help="write the bytes of its body to stdout, and nothing else"
        )

    def run(self, **options: Any) -> Result | BinaryIO:
        if options["body"]:
            return _body(options["id"], as_json=options["json"])
        way = fetch_way(options["id"])
        return Result(text=lambda: fetch_text.as_text(way), data=fetch_text.details(way))


class Why(Subcommand):
    """Say why a fetch waits."""

    name = "why"
    help = "say why a fetch waits: all that is in its way, until when, and what to do about it"
    examples = ("why 17", "why 17 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=row_id, metavar="ID")

    def run(self, **options: Any) -> Result:
        found = why(options["id"])
        return Result(text=lambda: fetch_text.why_text(found), data=fetch_text.why_data(found))


class Retry(Subcommand):
    """Queue failed fetches again."""

    name = "retry"
    help = "queue failed fetches again, from their own URLs, as if they were new"
    examples = (
        "retry 17 18",
        "retry --site example.com --status 503 --since 2h",
        'retry --error "connection refused" --limit 100',
        "retry --all --json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", type=row_id, nargs="*", metavar="ID", help="only these")
        _add_filters(parser)
        parser.add_argument("--all", action="store_true", help="every failed fetch")
        parser.add_argument(
            "--limit", type=at_least_one, metavar="N", help="the N oldest of them; default: all of them"
        )
        trial = parser.add_mutually_exclusive_group()
        trial.add_argument("--dry-run", action="store_true", help="say how many it would be, and change nothing")
        trial.add_argument("--expect", type=from_zero, metavar="N", help="change nothing if there are more than N")
        said.add_arguments(parser)

    def run(self, *, limit: int | None, **options: Any) -> Result:
        named, filters = set(options["ids"]), {name: options[name] for name in FILTERS}
        if named and (limit or options["all"] or any(value is not None for value in filters.values())):
            raise ValueError("Give IDs, or say which fetches are meant: not both.")
        if not (named or options["all"] or any(filters.values())):
            said = ", ".join(["IDs", *(f"--{name}" for name in FILTERS)])
            raise ValueError(f"Say which: {said}; or --all for every failed fetch.")
        meant = Q(pk__in=named) if named else _filtered(**filters)
        if options["dry_run"]:
            return _would_retry(Fetch.objects.filter(meant), limit)
        not_failed = sorted(named.difference(Fetch.objects.failed().filter(meant).values_list("pk", flat=True)))
        described = {"id": " ".join(map(str, sorted(named))) or None, **filters, "all": options["all"] or None}
        retried = actions.retry(
            acting.of_shell(options["who"]),
            Fetch.objects.filter(meant),
            {**described, "limit": limit},
            why=options.get("why", ""),
            limit=limit,
            expected=options["expect"],
        )
        refused = [f"Not failed, or not there: {', '.join(map(str, not_failed))}."] if not_failed else []
        return Result(
            text=lambda: "\n".join(retried.sentences()),
            data={**asdict(retried), "not_failed": not_failed},
            refused=refused,
        )


class Cancel(Subcommand):
    """Cancel fetches."""

    name = "cancel"
    help = "take back fetches that have not started; their slots go to others"
    examples = ("cancel 17 18 19", "cancel 17 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("ids", type=row_id, nargs="+", metavar="ID", help="these, each by itself")
        said.add_arguments(parser)

    def run(self, **options: Any) -> Result:
        actor = acting.of_shell(options["who"])
        cancelled: list[int] = []
        refused: list[int] = []
        for fetch_id in dict.fromkeys(options["ids"]):
            (cancelled if actions.cancel(actor, fetch_id, why=options.get("why", "")) else refused).append(fetch_id)
        states = dict(Fetch.objects.filter(pk__in=refused).values_list("pk", "state"))
        return Result(
            text=lambda: f"{len(cancelled):,} fetch{pluralize(cancelled, 'es')} cancelled.",
            data={
                "cancelled": cancelled,
                "too_late": [fetch_id for fetch_id in refused if fetch_id in states],
                "unknown": [fetch_id for fetch_id in refused if fetch_id not in states],
            },
            refused=[_refusal(fetch_id, states.get(fetch_id)) for fetch_id in refused],
        )


class Command(ActionCommand):
    help = "List and show fetches, say why one waits, queue failed ones again, or take back what has not started."
    actions = (List(), Ended(Subject.FETCH), Show(), Why(), Retry(), Cancel())
    refusals: ClassVar = (
        *REFUSALS,
        ValueError,
        BodyGone,
        BodyUnreachable,
        UnknownSite,
        UnknownFetch,
        UnknownBatch,
        acting.ActRefused,
    )


def _would_retry(meant: QuerySet[Fetch], limit: int | None) -> Result:
    number = min(actions.would_retry(meant), limit or sys.maxsize)
    text = f"{number:,} fetch{pluralize(number, 'es')} would be queued again: repeat it with --expect {number}."
    return Result(text=lambda: text, data={"would_retry": number})


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--site", metavar="HOST", help="only those that ended at this site, or go to it")
    parser.add_argument(
        "--status", type=at_least_one, metavar="CODE", help="only those whose last answer had this status"
    )
    parser.add_argument(
        "--error",
        type=utf8,
        metavar="TEXT",
        help="only those whose error contains this, in upper or lower case; * at its end: begins with it",
    )
    parser.add_argument(
        "--since", type=duration, metavar="2h", help="only those that ended within this time: 90s, 10m, 2h, 1d"
    )
    parser.add_argument("--batch", type=utf8, metavar="NAME", help="only those of this batch")
    parser.add_argument("--share", type=utf8, metavar="NAME", help="only those of this share")
    parser.add_argument("--reference", type=utf8, metavar="TEXT", help="only those that their caller calls so")


def _filtered(
    *,
    site: str | None,
    status: int | None,
    error: str | None,
    since: timedelta | None,
    batch: str | None,
    share: str | None,
    reference: str | None,
) -> Q:
    """Return the condition that a fetch meets all given filters."""
    meant = Q()
    if site:
        meant &= Q(site=_site(site))
    if status:
        meant &= Q(status_code=status)
    if error:
        meant &= error_like(error)
    if since:
        meant &= Q(finished_at__gte=Now() - since)
    if batch:
        meant &= Q(batch=id_of(batch))
    if share:
        meant &= Q(share=share)
    if reference:
        meant &= Q(reference=reference)
    return meant


def _site(host: str) -> Site:
    try:
        return Site.objects.get(name=site_names.canonical(host))
    except Site.DoesNotExist as error:
        raise unknown_site(host) from error


def _body(fetch_id: int, *, as_json: bool) -> BinaryIO:
    fetch = Fetch.objects.filter(pk=fetch_id).first()
    if fetch is None:
        raise UnknownFetch(fetch_id)
    if as_json:
        raise ValueError("Give --body or --json: not both.")
    content = fetch.open_content()
    if content is None:
        own = fetch_text.own_request(is_robots=fetch.is_robots, token_client=fetch.token_client)
        why_not = f"it is {own or fetch.state}"
        raise ValueError(f"Fetch {fetch.pk} has no body: {why_not}.")
    return content


def _refusal(fetch_id: int, state: str | None) -> str:
    if state is None:
        return f"There is no fetch {fetch_id}."
    if state in ACTIVE:
        return f"Fetch {fetch_id} was not cancelled: it is about to start, or in flight."
    return f"Fetch {fetch_id} had ended already: {state}."
