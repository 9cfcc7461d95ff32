"""Retries of failed fetches. A program first counts the fetches, and then retries them, unless there are more now."""

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from ninja import Router

from weir.api.access import actor
from weir.api.http.problems import BUSY, INVALID, MORE_THAN_EXPECTED, READ_ONLY, Problem
from weir.api.operations.fetches import filters_of
from weir.api.operations.operation import operation, refused
from weir.api.schemas.fetches import FetchQuery, Retried, Retry, RetryFilter
from weir.api.tokens import scopes
from weir.ratelimit.sites import SitesLocked
from weir.workers.fetches.actions import fetches
from weir.workers.fetches.models import Fetch
from weir.workers.fetches.retrying import MoreFetchesThanExpected

router = Router(tags=["fetches"])


@operation(
    router,
    "POST",
    "/fetch-retries",
    scope=scopes.CHANGE_FETCHES,
    answers={200: Retried},
    refusals=(READ_ONLY, MORE_THAN_EXPECTED, BUSY),
)
def retry_fetches(request: HttpRequest, wanted: Retry) -> Retried:
    """Queue failed fetches again, as if they were new, or say with `dry_run` how many would be.

    `expected` is how many the program expects: where there are more, nothing is done.
    """
    described, meant = _meant(wanted.filter)
    if wanted.dry_run:
        fetches.RETRY.allow(actor(request), wanted.why)
        would = fetches.would_retry(meant)
        return Retried(dry_run=True, queued=would, not_urls=0, robots_files=0, access_tokens=0, already_unfinished=0)
    if wanted.expected is None:
        raise Problem(INVALID, "Say in `expected` how many you expect: `dry_run` tells.")
    with refused(MORE_THAN_EXPECTED, MoreFetchesThanExpected), refused(BUSY, SitesLocked):
        done = fetches.retry(actor(request), meant, described, why=wanted.why, expected=wanted.expected)
    return Retried(
        dry_run=False,
        queued=done.queued,
        not_urls=done.not_urls,
        robots_files=done.robots_files,
        access_tokens=done.access_tokens,
        already_unfinished=done.already_unfinished,
    )


def _meant(wanted: RetryFilter) -> tuple[dict[str, Any], QuerySet[Fetch]]:
    """Return the filter in words, and the fetches that it names. Raises Problem for a filter that names all fetches."""
    given = {name: value for name, value in wanted.model_dump().items() if value not in ("", None)}
    if not given:
        raise Problem(INVALID, "`filter` must say which fetches are meant.")
    ids = given.pop("ids", None)
    filters = filters_of(FetchQuery(state=["failed"], **given))
    meant = Fetch.objects.filter(filters.condition() & (Q() if ids is None else Q(pk__in=ids)))
    return {**given, **({} if ids is None else {"ids": ids})}, meant
