"""What Weir has to do in the demo: sites with rates, and URLs, most of them ordinary pages."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from urllib.parse import quote

from demo.fakes.sites import Sites
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetches

RATES = ("1/2s", "1/s", "2/s", "3/s", "5/s", "8/s", "10/s", "20/s")
MAX_ATTEMPTS = 2
URLS_A_CALL = 10_000
BACKLOG_AFTER_THE_END_S = 3.0  # dispatch reserves 2 s ahead, and must not run out of URLs before the end
SHORT_SITE = 6  # every sixth site has half as many URLs, to show a site whose backlog ends
ODD_ONE_IN = 10  # one URL of so many is slow, fails or redirects


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One site, its rate as people write it, and its interval in seconds."""

    host: str
    port: int
    rate: str
    interval_s: float

    @property
    def name(self) -> str:
        """The site's name in the database."""
        return f"{self.host}:{self.port}"


class Workload:
    """The sites with their rates and URLs."""

    def __init__(self, fakes: Sites) -> None:
        self.sites = [
            Site(host=host, port=fakes.port, rate=rate, interval_s=parse_rate(rate).total_seconds())
            for host, rate in zip(fakes.hosts, cycle(RATES), strict=False)
        ]
        self._fakes = fakes

    def set_rates(self) -> None:
        """Give each site its rate in the database."""
        for site in self.sites:
            site_settings.set_rate(site.name, site.rate)

    def enqueue(self, duration_s: float) -> int:
        """Enqueue enough URLs to keep most sites busy that long; return how many."""
        urls = [
            self._fakes.url(index, path)
            for index, site in enumerate(self.sites)
            for path in self._paths(index, _how_many(index, site, duration_s))
        ]
        for start in range(0, len(urls), URLS_A_CALL):
            request_fetches(urls[start : start + URLS_A_CALL], max_attempts=MAX_ATTEMPTS)
        return len(urls)

    def _paths(self, index: int, count: int) -> Iterator[str]:
        elsewhere = quote(self._fakes.url((index + len(RATES)) % len(self.sites), "/moved"), safe="")
        for number in range(count):
            place, odd = divmod(number + 3 * index, ODD_ONE_IN)
            kinds = (
                f"/slow/800/{number}",
                f"/status/500/{number}",
                f"/flaky/1/{number}",
                f"/redirect/{elsewhere}",
                "/close",
            )
            yield kinds[place % len(kinds)] if not odd else f"/page/{number}"


def _how_many(index: int, site: Site, duration_s: float) -> int:
    share = 0.5 if index % SHORT_SITE == SHORT_SITE - 1 else 1.0
    return 2 + round(share * (duration_s + BACKLOG_AFTER_THE_END_S) / site.interval_s)
