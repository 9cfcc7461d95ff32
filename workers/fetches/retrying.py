"""Retrying: failed fetches begin again, as if they were new, when a person or a program says so.

    from workers.fetches.retrying import retry_failed
    retry_failed(Fetch.objects.failed().filter(status_code=503))

A fetch keeps its id, URL, priority, `max_attempts`, `on_done` and dedupe key; all that its failed way left is gone, so
that it begins at its own URL, not where redirects led. Its `on_done` is called at its new end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Count, Q, QuerySet
from django.template.defaultfilters import pluralize
from psycopg.errors import UniqueViolation

from postgres import statements
from ratelimit.sites import sites_of
from workers.fetches import backlog
from workers.fetches.models import Fetch, State
from workers.fetches.robots import files as robots_files
from workers.fetches.robots.rules import origin_of
from workers.fetches.targets import InvalidTarget, Target, parse_target

BATCH = 1_000
# A batch holds the dedupe keys of its fetches. It gives up before somebody who waits for one of them, and is waited for
# in turn, is found to be in a deadlock (PostgreSQL looks after 1 s).
PATIENCE = "100ms"


@dataclass(frozen=True, kw_only=True, slots=True)
class Retried:
    """How many failed fetches are queued again, and how many stay failed, by the reason."""

    queued: int = 0
    not_urls: int = 0  # their text is none that Weir fetches
    robots_files: int = 0  # asked for by Weir, and again by itself when a fetch needs them
    already_unfinished: int = 0  # another fetch with their dedupe key is under way

    def __add__(self, other: "Retried") -> "Retried":
        return Retried(
            queued=self.queued + other.queued,
            not_urls=self.not_urls + other.not_urls,
            robots_files=self.robots_files + other.robots_files,
            already_unfinished=self.already_unfinished + other.already_unfinished,
        )

    @property
    def tried(self) -> int:
        """Return how many there were."""
        return self.queued + self.not_urls + self.robots_files + self.already_unfinished

    def sentences(self) -> Iterator[str]:
        """Say it to a person."""
        yield f"{self.queued:,} fetch{pluralize(self.queued, 'es')} queued again."
        if self.not_urls:
            yield f"{_stay_failed(self.not_urls)}: no URL that Weir fetches."
        if self.robots_files:
            yield f"{_stay_failed(self.robots_files)}: robots.txt, which Weir asks for again when a fetch needs it."
        if self.already_unfinished:
            yield f"{_stay_failed(self.already_unfinished)}: the URL has an unfinished fetch already (dedupe)."


def retry_failed(fetches: QuerySet[Fetch], *, limit: int | None = None) -> Retried:
    """Queue again those of the fetches that failed, the oldest `limit` or all; those that did not are left alone.

    So is a robots.txt that Weir asked for: it asks again by itself. Each is tried once, also if it fails again
    meanwhile. Commits in batches; raises TransactionManagementError inside a transaction.
    """
    statements.refuse_transaction("retry_failed")
    failed = fetches.filter(state=State.FAILED)
    # What was refused when it was asked for has no site; what is stored of it may not even be what was asked for.
    retried = Retried(
        **failed.aggregate(
            not_urls=Count("pk", filter=Q(site=None)), robots_files=Count("pk", filter=Q(is_robots=True))
        )
    )
    again = failed.filter(is_robots=False).exclude(site=None)
    ids = list(again.order_by("pk").values_list("pk", flat=True)[:limit])
    for start in range(0, len(ids), BATCH):
        retried += _retry(ids[start : start + BATCH])
    return retried


def _retry(ids: Sequence[int]) -> Retried:
    targets = dict(_targets(Fetch.objects.failed().filter(pk__in=ids).order_by("pk")))
    again = {fetch_id: target for fetch_id, target in targets.items() if target is not None}
    sites = sites_of({target.host for target in again.values()})
    backlog.activate(robots_files.ask({origin_of(target.url): sites[target.host] for target in again.values()}))
    retried = _queue([(fetch_id, target.url, sites[target.host]) for fetch_id, target in again.items()])
    return retried + Retried(not_urls=len(targets) - len(again))


def _targets(fetches: QuerySet[Fetch]) -> Iterator[tuple[int, Target | None]]:
    """Yield where each begins again; None for a text that was taken for a URL once, and is none any more."""
    for fetch_id, url in fetches.values_list("pk", "url"):
        try:
            yield fetch_id, parse_target(url)
        except InvalidTarget:
            yield fetch_id, None


def _queue(wanted: Sequence[tuple[int, str, int]]) -> Retried:
    """Queue all of (id, URL, site) at once; or, where others are in the way, one after the other.

    One by itself holds no key while it waits for another, so that nobody can be waiting for it.
    """
    try:
        with transaction.atomic(durable=True):
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [PATIENCE])
            rows = statements.run_within("workers.fetches", "retry", _columns(wanted))
    except (IntegrityError, OperationalError):  # a key was taken meanwhile; somebody holds a row or a key for long
        return sum((_queue_one(one) for one in wanted), Retried())
    return _told(rows)


def _queue_one(one: tuple[int, str, int]) -> Retried:
    try:
        rows = statements.run("workers.fetches", "retry", _columns([one]))
    except IntegrityError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        return Retried(already_unfinished=1)  # its key was taken while this waited for it
    return _told(rows)


def _columns(wanted: Sequence[tuple[int, str, int]]) -> dict[str, list[object]]:
    return {name: [one[i] for one in wanted] for i, name in enumerate(("ids", "hop_urls", "sites"))}


def _told(rows: list[Any]) -> Retried:
    """Wake the sites that have work again, and return what the statement did."""
    [row] = rows
    backlog.activate(row.sites)
    return Retried(queued=row.queued, already_unfinished=row.failed - row.queued)


def _stay_failed(number: int) -> str:
    return f"{number:,} stay{pluralize(number, 's,')} failed"
