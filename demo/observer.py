"""The observer: reads what sites, users, mail server and database say of a run, again and again while it lasts."""

import time
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from demo.fakes import judge, site_log
from demo.figures import Backlog, Emails, Figures, Totals, Unread, measure
from demo.inboxes import Inboxes
from demo.shipments import Shipments
from demo.workload import Site
from weir.postgres.statements import Statement

RECENT_S = 5.0  # the time over which the sites' own rates are shown


class SiteBacklog(NamedTuple):
    """A site's fetches: those that dispatch could reserve now, and all that wait for their start."""

    name: str
    due: int
    waiting: int


class FetchTotals(NamedTuple):
    """How many fetches have ended, and how late their requests were written; None before the first request."""

    fetched: int
    failed: int
    failed_on_purpose: int
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None


BACKLOG = Statement("backlog", row=SiteBacklog, commits=True)
TOTALS = Statement("totals", row=FetchTotals, commits=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteView:
    """The state of one site."""

    site: Site
    rate_seen: float | None  # requests a second, by the site's log; None if it got fewer than two lately
    shortest_gap_s: float | None
    waiting: int  # fetches

    @property
    def clears_in_s(self) -> float:
        """The time until all waiting fetches have started, if none of them is retried."""
        return self.waiting * self.site.interval_s


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The state of everything; `elapsed_s` counts from the first request, and is None before it."""

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
    """The arrivals at one site so far, the earliest first."""

    site: Site
    times: list[int] = field(default_factory=list)
    shortest_gap_ns: int | None = None

    def add(self, at_ns: int) -> None:
        """Add an arrival; the order of the log is almost, but not quite, that of arrival."""
        place = bisect(self.times, at_ns)
        self.times.insert(place, at_ns)
        near = self.times[max(0, place - 1) : place + 2]
        found = [later - earlier for earlier, later in pairwise(near)]
        if self.shortest_gap_ns is not None:
            found.append(self.shortest_gap_ns)
        self.shortest_gap_ns = min(found, default=None)

    def early_starts(self) -> int:
        """Count the early starts, but only if there is one: the whole list is gone through."""
        interval_ns = self.site.interval_s * judge.NANOSECONDS
        if self.shortest_gap_ns is None or self.shortest_gap_ns >= interval_ns:
            return 0
        return judge.early_starts(self.times, self.site.interval_s)

    def view(self, now_ns: int, waiting: int) -> SiteView:
        """Return the site's state; its rate is that of the last intervals, or the last `RECENT_S` if longer."""
        recent_s = max(RECENT_S, 3 * self.site.interval_s)
        share = judge.used_share(
            self.times,
            self.site.interval_s,
            from_ns=now_ns - round(recent_s * judge.NANOSECONDS),
            until_ns=now_ns,
        )
        gap_ns = self.shortest_gap_ns
        return SiteView(
            site=self.site,
            rate_seen=None if share is None else share / self.site.interval_s,
            shortest_gap_s=None if gap_ns is None else gap_ns / judge.NANOSECONDS,
            waiting=waiting,
        )


class Observer:
    """Observes one run: `look` while it lasts, `look_at_the_end` once, `figures` when everything has stopped."""

    def __init__(self, sites: Sequence[Site], log: Path, inboxes: Inboxes, shipments: Shipments) -> None:
        self._log = log
        self._inboxes = inboxes
        self._shipments = shipments
        self._offset = 0
        self._watched = {site.host: _Watched(site=site) for site in sites}
        self._backlogs: list[Backlog] = []
        self._totals = Totals()
        self._unread = Unread()
        self._emails = Emails()
        self._first_ns: int | None = None

    @property
    def intervals(self) -> dict[str, float]:
        """Each host's interval in seconds."""
        return {host: watched.site.interval_s for host, watched in self._watched.items()}

    def look(self) -> View:
        """Return the state now."""
        self._read_log()
        now_ns = time.time_ns()
        waiting = self._read_backlogs(now_ns)
        self._totals = _read_totals()
        self._unread = self._inboxes.look()
        self._emails = self._shipments.look()
        elapsed_s = None if self._first_ns is None else (now_ns - self._first_ns) / judge.NANOSECONDS
        recent_s = min(RECENT_S, max(1.0, elapsed_s or 0.0))
        watched = self._watched.values()
        return View(
            elapsed_s=elapsed_s,
            sites=[one.view(now_ns, waiting.get(one.site.host, 0)) for one in watched],
            requests=sum(len(one.times) for one in watched),
            requests_per_s=sum(judge.recent_rate(one.times, until_ns=now_ns, seconds=recent_s) for one in watched),
            early_starts=sum(one.early_starts() for one in watched),
            totals=self._totals,
            unread=self._unread,
            emails=self._emails,
        )

    def look_at_the_end(self) -> View:
        """Stop users and warehouse, and return the state: neither changes anything any more."""
        self._inboxes.program.stop()
        self._shipments.program.stop()
        return self.look()

    def figures(self) -> Figures | None:
        """Return the figures of the whole run, None if too few requests came. Needs no server."""
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
        """Return all requests in the sites' log."""
        return site_log.read_arrivals(self._log)[0]

    def _read_log(self) -> None:
        arrivals, self._offset = site_log.read_arrivals(self._log, self._offset)
        for arrival in arrivals:
            self._watched[arrival.host].add(arrival.at_ns)
        if self._first_ns is None:
            firsts = [watched.times[0] for watched in self._watched.values() if watched.times]
            self._first_ns = min(firsts, default=None)

    def _read_backlogs(self, now_ns: int) -> dict[str, int]:
        """Record which hosts have a backlog now; return how many fetches wait for each host."""
        rows = {row.name.rpartition(":")[0]: row for row in BACKLOG()}
        due = frozenset(host for host, row in rows.items() if row.due)
        self._backlogs.append(Backlog(at_ns=now_ns, hosts=due))
        return {host: row.waiting for host, row in rows.items()}


def _read_totals() -> Totals:
    [row] = TOTALS()
    return Totals(
        fetched=row.fetched,
        failed=row.failed,
        failed_on_purpose=row.failed_on_purpose,
        lateness_p50_ms=row.lateness_p50_ms or 0.0,
        lateness_p99_ms=row.lateness_p99_ms or 0.0,
    )
