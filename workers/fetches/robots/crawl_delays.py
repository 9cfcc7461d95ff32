"""Crawl-delays: a site has the longest Crawl-delay that its robots.txt files ask for, among those that still count."""

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from weir.conf import settings
from weir.postgres.statements import Statement
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.ratelimit.sites import is_unlocked


class UnsettledSite(NamedTuple):
    """A site whose Crawl-delay is wrong, and the right one."""

    site_id: int
    crawl_delay: timedelta | None


CRAWL_DELAYS = Statement("crawl_delays", row=UnsettledSite, commits=True)


def settle(site_ids: Iterable[int]) -> None:
    """Give each of these sites the longest Crawl-delay that still counts there, or none if none does.

    If two processes do so at the same time, the one that read the files earlier may write last. A Crawl-delay that no
    longer counts then stays until `settle_all` runs; a missing one is set when a fetcher next looks up that robots.txt.
    """
    for row in _unsettled(site_ids):
        site_settings.set_crawl_delay(row.site_id, row.crawl_delay)


def settle_all() -> None:
    """Remove the Crawl-delays that no longer count, because their robots.txt has expired, or is no longer obeyed.

    A site that obeys robots.txt again gets its Crawl-delay when a fetcher looks up its robots.txt. A site that another
    transaction has locked is left to the next call.
    """
    for row in _unsettled(Site.objects.filter(crawl_delay__isnull=False).values_list("pk", flat=True)):
        if is_unlocked(row.site_id):
            site_settings.set_crawl_delay(row.site_id, row.crawl_delay)


def _unsettled(site_ids: Iterable[int]) -> list[UnsettledSite]:
    parameters = {"sites": list(site_ids), "obey": settings.WEIR_OBEY_ROBOTS}
    return CRAWL_DELAYS(**parameters)
