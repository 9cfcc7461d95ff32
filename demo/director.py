"""The director: gives the sites their rates and Weir their URLs, and watches what sites, users and mail server see."""

import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, pairwise
from urllib.parse import quote

from demo.fakes import judge, site_log
from demo.fakes.sites import Sites
from demo.figures import Backlog, Emails, Figures, Totals, Unread, measure
from demo.inboxes import Inboxes
from demo.shipments import Shipments
from postgres import statements
from ratelimit import site_settings
from ratelimit.rates import parse_rate
from workers.beat import LOCK
from workers.fetches.enqueue import request_fetches

RATES = ("1/2s", "1/s", "2/s", "3/s", "5/s", "8/s", "10/s", "20/s")
MAX_ATTEMPTS = 2
URLS_A_CALL = 10_000
RECENT_S = 5.0  # over which the sites' own rates are shown
BACKLOG_AFTER_THE_END_S = 3.0  # dispatch books 2 s ahead, and must not run dry before the end
SHORT_SITE = 6  # every sixth site runs dry in the middle, to show what that looks like
ODD_ONE_IN = 10  # URLs, one of which is slow, failing or redirecting
_query = partial(statements.run, "demo")


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One site, its rate as people write it, and its interval in seconds."""

    host: str
    port: int
    rate: str
    interval_s: float

    @property
    def name(self) -> str:
        """What the site is called in the database."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteView:
    """How one site stands."""

    site: Site
    rate_seen: float | None  # requests a second, by the site's log; None where it was not asked lately
    shortest_gap_s: float | None
    waiting: int

    @property
    def clears_in_s(self) -> float:
        """When all that waits will have started, if it all goes well."""
        return self.waiting * self.site.interval_s


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """How everything stands; `elapsed_s` since the first request, None before it."""

    elapsed_s: float | None
    sites: Sequence[SiteView]
    requests: int
    requests_per_s: float
    early_starts: int
    totals: Totals
    unread: Unread
    emails: Emails


@dataclass(kw_only=True, slots=True)
class _Watched:
    """What one site has seen so far."""

    times: list[int] = field(default_factory=list)
    shortest_gap_ns: int | None = None

    def add(self, at_ns: int) -> None:
        """Note an arrival; the log's order is almost, but not quite, that of time."""
        place = bisect(self.times, at_ns)
        self.times.insert(place, at_ns)
        near = self.times[max(0, place - 1) : place + 2]
        found = [later - earlier for earlier, later in pairwise(near)]
        if self.shortest_gap_ns is not None:
            found.append(self.shortest_gap_ns)
        self.shortest_gap_ns = min(found, default=None)


class Director:
    """One run: `set_rates`, `feed`, then `look` again and again; `figures` when everything has stopped."""

    def __init__(self, sites: Sites, inboxes: Inboxes, shipments: Shipments) -> None:
        self.sites = [
            Site(host=host, port=sites.port, rate=rate, interval_s=parse_rate(rate).total_seconds())
            for host, rate in zip(sites.hosts, cycle(RATES), strict=False)
        ]
        self._sites = sites
        self._inboxes = inboxes
        self._shipments = shipments
        self._offset = 0
        self._first_ns: int | None = None
        self._watched = {site.host: _Watched() for site in self.sites}
        self._backlogs: list[Backlog] = []
        self._totals = Totals()
        self._unread = Unread()
        self._emails = Emails()

    def set_rates(self) -> None:
        """Tell Weir how fast each site may be asked."""
        for site in self.sites:
            site_settings.set_rate(site.name, site.rate)

    def feed(self, duration_s: float) -> int:
        """Ask for as many URLs as keep most sites busy that long; returns their number."""
        urls = [
            self._sites.url(index, path)
            for index, site in enumerate(self.sites)
            for path in self._paths(index, _how_many(index, site, duration_s))
        ]
        for start in range(0, len(urls), URLS_A_CALL):
            request_fetches(urls[start : start + URLS_A_CALL], max_attempts=MAX_ATTEMPTS)
        return len(urls)

    def _paths(self, index: int, count: int) -> Iterator[str]:
        elsewhere = quote(self._sites.url((index + len(RATES)) % len(self.sites), "/moved"), safe="")
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

    def look(self) -> View:
        """Return how everything stands now."""
        arrivals, self._offset = site_log.read_arrivals(self._sites.log, self._offset)
        for arrival in arrivals:
            self._watched[arrival.host].add(arrival.at_ns)
        now_ns = time.time_ns()
        waiting, due = {}, set()
        for row in _query("backlog", {}):
            host = row.name.rpartition(":")[0]
            waiting[host] = row.waiting
            if row.due:
                due.add(host)
        self._backlogs.append(Backlog(at_ns=now_ns, hosts=frozenset(due)))
        row = _query("totals", {})[0]
        self._totals = Totals(
            fetched=row.fetched,
            failed=row.failed,
            lateness_p50_ms=row.lateness_p50_ms or 0.0,
            lateness_p99_ms=row.lateness_p99_ms or 0.0,
        )
        self._unread = self._inboxes.look()
        self._emails = self._shipments.look()
        if self._first_ns is None:
            self._first_ns = min(
                (watched.times[0] for watched in self._watched.values() if watched.times), default=None
            )
        elapsed_s = None if self._first_ns is None else (now_ns - self._first_ns) / judge.NANOSECONDS
        recent_s = min(RECENT_S, max(1.0, elapsed_s or 0.0))
        return View(
            elapsed_s=elapsed_s,
            sites=[self._site_view(site, now_ns, waiting.get(site.host, 0)) for site in self.sites],
            requests=sum(len(watched.times) for watched in self._watched.values()),
            requests_per_s=sum(
                judge.recent_rate(watched.times, until_ns=now_ns, seconds=recent_s)
                for watched in self._watched.values()
            ),
            early_starts=sum(
                judge.early_starts(watched.times, site.interval_s)
                for site in self.sites
                if (watched := self._watched[site.host]).shortest_gap_ns is not None
                and watched.shortest_gap_ns < site.interval_s * judge.NANOSECONDS
            ),
            totals=self._totals,
            unread=self._unread,
            emails=self._emails,
        )

    def look_at_the_end(self) -> View:
        """Return how everything stood when users and warehouse had stopped: they change nothing any more."""
        self._inboxes.program.stop()
        self._shipments.program.stop()
        return self.look()

    def _site_view(self, site: Site, now_ns: int, waiting: int) -> SiteView:
        watched = self._watched[site.host]
        recent_s = max(RECENT_S, 3 * site.interval_s)
        share = judge.used_share(
            watched.times,
            site.interval_s,
            from_ns=now_ns - round(recent_s * judge.NANOSECONDS),
            until_ns=now_ns,
        )
        gap_ns = watched.shortest_gap_ns
        return SiteView(
            site=site,
            rate_seen=None if share is None else share / site.interval_s,
            shortest_gap_s=None if gap_ns is None else gap_ns / judge.NANOSECONDS,
            waiting=waiting,
        )

    def figures(self) -> Figures | None:
        """Return what the whole log says, None if there is nothing to say. Asks no server any more."""
        emails = replace(self._emails, emails_received_twice=self._shipments.received_twice())
        return measure(
            self.arrivals(),
            self.intervals,
            self._backlogs,
            totals=self._totals,
            unread=self._unread,
            emails=emails,
        )

    def arrivals(self) -> list[site_log.Arrival]:
        """Return the sites' whole log."""
        return site_log.read_arrivals(self._sites.log)[0]

    @property
    def intervals(self) -> dict[str, float]:
        """Each host's interval in seconds."""
        return {site.host: site.interval_s for site in self.sites}


def beat_ticks() -> bool:
    """Tell whether beat has begun to work."""
    return bool(_query("beat_ticks", {"lock": LOCK}))


def _how_many(index: int, site: Site, duration_s: float) -> int:
    share = 0.5 if index % SHORT_SITE == SHORT_SITE - 1 else 1.0
    return 2 + round(share * (duration_s + BACKLOG_AFTER_THE_END_S) / site.interval_s)
