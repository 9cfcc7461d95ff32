"""The sites that WEIR_METRICS_SITES names, with three series each. All other metrics have about a hundred series."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

from weir.conf import settings
from weir.ops.metrics.families import gauges
from weir.postgres.statements import Statement
from weir.ratelimit import site_names

MOST_SITES: Final = 100
MOST: Final = 1_000  # how many queued fetches of one site are counted


class MeasuredSite(NamedTuple):
    """The state of a site."""

    name: str
    queued: int
    first_due_s: float
    is_held: bool


SITES_NOW = Statement("sites_now", row=MeasuredSite, commits=False)


def names() -> list[str]:
    """Return the names of the sites, as they are stored, without invalid ones, which a system check reports."""
    found = []
    for name in settings.WEIR_METRICS_SITES[:MOST_SITES]:
        with suppress(site_names.InvalidSiteName):
            found.append(site_names.canonical(name))
    return list(dict.fromkeys(found))


def families() -> Iterator[Metric]:
    """Yield the three families. Each has one series for every named site that exists."""
    seen = SITES_NOW(names=names(), most=MOST)
    queued = {site.name: float(site.queued) for site in seen}
    yield gauges("weir_site_queued_fetches", "Not counted beyond 1,000: 1,001 means more.", "site", queued)
    due = {site.name: site.first_due_s for site in seen}
    yield gauges("weir_site_first_due_seconds", "Since the first of the queue became due; 0: it is not.", "site", due)
    held = {site.name: float(site.is_held) for site in seen}
    yield gauges("weir_site_held", "1 while the site is paused, backed off, resting or unreachable.", "site", held)
