"""Retrying: web code or an operator starts failed fetches again, as if they were new.

    from weir import retry_batch, retry_failed_fetches
    retry_failed_fetches(Fetch.objects.failed().filter(status_code=503))
    retry_batch("import-7")

A fetch keeps its id, URL, priority, `max_attempts`, `on_done` and dedupe key. Everything that its attempts stored is
deleted: it starts at its own URL, not where redirects led. Its `on_done` is called again when it ends again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Count, Q, QuerySet
from django.template.defaultfilters import pluralize
from psycopg.errors import UniqueViolation

from weir.postgres import own_commits
from weir.postgres.statements import Statement
from weir.ratelimit.sites import sites_of
from weir.workers.fetches import backlog
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.batches.counts import id_of
from weir.workers.fetches.models import ASKED_FOR, Fetch, FetchState
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots.rules import origin_of
from weir.workers.fetches.targets import InvalidTarget, Target, parse_target

BATCH = 1_000
# How long a batch waits for a lock. Meanwhile it holds the dedupe keys of its fetches, so it and another transaction
# may wait for each other. It gives up before PostgreSQL looks for deadlocks (after 1 s), because PostgreSQL might end
# the other transaction.
PATIENCE = "100ms"
Note = Callable[[int], object] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retried:
    """How many are queued again, and how many stay failed, by the reason."""

    queued: int = 0
    not_urls: int = 0  # the text is not a URL that Weir fetches
    robots_files: int = 0  # Weir asks for these by itself when a fetch needs them
    access_tokens: int = 0  # the same
    made_once: int = 0  # their effects decide: `manage.py effects resolve`
    already_unfinished: int = 0  # another fetch with the same dedupe key has not ended

    def __add__(self, other: "Retried") -> "Retried":
        return Retried(
            queued=self.queued + other.queued,
            not_urls=self.not_urls + other.not_urls,
            robots_files=self.robots_files + other.robots_files,
            access_tokens=self.access_tokens + other.access_tokens,
            made_once=self.made_once + other.made_once,
            already_unfinished=self.already_unfinished + other.already_unfinished,
        )

    @property
    def tried(self) -> int:
        own = self.robots_files + self.access_tokens
        return self.queued + self.not_urls + own + self.made_once + self.already_unfinished

    def sentences(self) -> Iterator[str]:
        yield f"{self.queued:,} fetch{pluralize(self.queued, 'es')} queued again."
        if self.not_urls:
            yield f"{_stay_failed(self.not_urls)}: no URL that Weir fetches."
        if self.robots_files:
            yield f"{_stay_failed(self.robots_files)}: robots.txt, which Weir asks for again when a fetch needs it."
        if self.access_tokens:
            said = "access tokens, for which Weir asks again when a fetch needs them"
            yield f"{_stay_failed(self.access_tokens)}: {said}."
        if self.made_once:
            said = "requests that are made once, which `manage.py effects resolve` has done again"
            yield f"{_stay_failed(self.made_once)}: {said}."
        if self.already_unfinished:
            yield f"{_stay_failed(self.already_unfinished)}: the URL has an unfinished fetch already (dedupe)."


class MoreFetchesThanExpected(ValueError):
    """More fetches failed than the caller expected: nothing was queued."""


def retry_failed(
    fetches: QuerySet[Fetch],
    *,
    limit: int | None = None,
    expected: int | None = None,
    note: Note = None,
) -> Retried:
    """Queue failed fetches again; the oldest `limit` of them, or all. Fetches that have not failed are left alone.

    What Weir itself asked for, a robots.txt or an access token, is left alone, too: it is asked for again when a fetch
    needs it. So are requests that are made once (`resolve_effect`). Each fetch is queued once, even if it fails again
    meanwhile. Commits in batches; raises TransactionManagementError inside a transaction.

    `note` is called in the transaction of each batch, with how many it has queued. Raises MoreFetchesThanExpected if
    there are more than `expected`.
    """
    own_commits.refuse_transaction("retry_failed_fetches")
    failed = fetches.filter(state=FetchState.FAILED)
    # A text that was not a URL has no site. It may have been cut when it was stored, so it is not parsed again.
    retried = Retried(
        **failed.aggregate(
            not_urls=Count("pk", filter=Q(site=None)),
            robots_files=Count("pk", filter=Q(is_robots=True)),
            access_tokens=Count("pk", filter=~Q(token_client="")),
            made_once=Count("pk", filter=Q(effect__isnull=False, site__isnull=False)),
        )
    )
    again = failed.filter(ASKED_FOR, effect=None).exclude(site=None)
    most = limit if expected is None else min(expected + 1, expected + 1 if limit is None else limit)
    ids = list(again.order_by("pk").values_list("pk", flat=True)[:most])
    if expected is not None and len(ids) > expected:
        raise MoreFetchesThanExpected(
            f"More than {expected:,} fetches would be queued again: nothing was done. Look at what failed."
        )
    for start in range(0, len(ids), BATCH):
        retried += _retry(ids[start : start + BATCH], note)
    return retried


def retry_batch(name: str, *, limit: int | None = None, note: Note = None) -> Retried:
    """Queue what failed of a batch again.

    As `retry_failed` does, the oldest `limit` of them, or all. The batch ends anew. Raises UnknownBatch.
    """
    return retry_failed(Fetch.objects.filter(batch=id_of(name)), limit=limit, note=note)


class RetriedFetches(NamedTuple):
    """How many of the fetches had failed, how many of these are queued again, and at which sites."""

    failed: int
    queued: int
    sites: list[int]


RETRY = Statement("retry", row=RetriedFetches, commits=False)


def _retry(ids: Sequence[int], note: Note) -> Retried:
    targets = dict(_targets(Fetch.objects.failed().filter(pk__in=ids).order_by("pk")))
    again = {fetch_id: target for fetch_id, target in targets.items() if target is not None}
    sites = sites_of({target.host for target in again.values()})
    backlog.activate(robots_files.ask({origin_of(target.url): sites[target.host] for target in again.values()}))
    retried = _queue([(fetch_id, target.url, sites[target.host]) for fetch_id, target in again.items()], note)
    return retried + Retried(not_urls=len(targets) - len(again))


def _targets(fetches: QuerySet[Fetch]) -> Iterator[tuple[int, Target | None]]:
    """Yield the id of each fetch and its target; None if Weir no longer fetches its URL, or the settings forbid it."""
    allowed = allowed_by_settings()
    for fetch_id, url in fetches.values_list("pk", "url"):
        try:
            yield fetch_id, parse_target(url, allowed)
        except InvalidTarget:
            yield fetch_id, None


def _queue(wanted: Sequence[tuple[int, str, int]], note: Note) -> Retried:
    """Queue all of (id, URL, site) in one statement, or one by one if another transaction is in the way.

    A statement for one fetch holds no dedupe key while it waits for one: it cannot be part of a deadlock.
    """
    try:
        with transaction.atomic(durable=True):
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [PATIENCE])
            retried = _queued(wanted, note)
    except (IntegrityError, OperationalError):  # a key was taken meanwhile; or a row, or a key, is locked for long
        return sum((_queue_one(one, note) for one in wanted), Retried())
    return _activate_and_count(retried)


def _queue_one(one: tuple[int, str, int], note: Note) -> Retried:
    try:
        with transaction.atomic(durable=True):
            retried = _queued([one], note)
    except IntegrityError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        return Retried(already_unfinished=1)  # its key was taken while the statement waited for it
    return _activate_and_count(retried)


def _queued(wanted: Sequence[tuple[int, str, int]], note: Note) -> RetriedFetches:
    [retried] = RETRY(**_columns(wanted))
    if note and retried.queued:
        note(retried.queued)
    return retried


def _columns(wanted: Sequence[tuple[int, str, int]]) -> dict[str, list[object]]:
    return {name: [one[i] for one in wanted] for i, name in enumerate(("ids", "hop_urls", "sites"))}


def _activate_and_count(row: RetriedFetches) -> Retried:
    """Activate the backlog flags of the sites that have work again; returns how many fetches were queued."""
    backlog.activate(row.sites)
    return Retried(queued=row.queued, already_unfinished=row.failed - row.queued)


def _stay_failed(number: int) -> str:
    return f"{number:,} stay{pluralize(number, 's,')} failed"
