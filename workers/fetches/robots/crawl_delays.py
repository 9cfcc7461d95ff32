"""Crawl-delays: what robots.txt files ask for becomes their site's, as long as it counts."""

from collections.abc import Iterable

from django.conf import settings

from postgres import statements
from ratelimit import site_settings
from ratelimit.models import Site


def settle(site_ids: Iterable[int]) -> None:
    """Give each of these sites the longest Crawl-delay that still counts there, or none where none does.

    Two who do so at once, one of them with older knowledge, may leave a delay behind that counts no more, until
    `settle_all` comes by, or leave one out, until a fetcher looks at that robots.txt again.
    """
    for row in statements.run(
        "workers.fetches.robots", "crawl_delays", {"sites": list(site_ids), "obey": settings.WEIR_OBEY_ROBOTS}
    ):
        site_settings.set_crawl_delay(row.site_id, row.crawl_delay)


def settle_all() -> None:
    """Take away what counts no more: its robots.txt has expired, or is obeyed no longer.

    The other way round, a site that is to obey again has its delay when a fetcher looks at the robots.txt.
    """
    settle(Site.objects.filter(crawl_delay__isnull=False).values_list("pk", flat=True))
