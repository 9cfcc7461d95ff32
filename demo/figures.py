"""What a run of the demo came to: pure functions of the sites' log and of when each site had a backlog."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from demo.fakes.judge import NANOSECONDS, early_starts, gap_ratios, times_by_host
from demo.fakes.site_log import Arrival


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What the database says of all fetches."""

    fetched: int = 0
    failed: int = 0
    lateness_p50_ms: float = 0.0  # from the start of the slot to the writing of the request
    lateness_p99_ms: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """What came of the users' notifications and of their unread numbers."""

    notified: int = 0  # notifications
    marked_read: int = 0
    unread_reads: int = 0  # answers to how much is unread, for some users each
    unread_flushes: int = 0
    unread_rows_written: int = 0  # of UnreadCount, by these flushes
    unread_drift: int = 0  # users whose unread number ever differed from COUNT(*)


@dataclass(frozen=True, kw_only=True, slots=True)
class Emails:
    """What came of shipped orders' e-mails, while processes that send them were killed."""

    shipped: int = 0  # orders, with an e-mail each
    emails_sent: int = 0
    emails_failed: int = 0
    emails_unknown: int = 0
    emails_received_twice: int = 0  # or more often, by the mail server's own list
    emails_never_received: int = 0  # of those sent, by the same list; looked for at the end
    mailers_killed: int = 0

    @property
    def pending(self) -> int:
        """How many are still on their way."""
        return self.shipped - self.emails_sent - self.emails_failed - self.emails_unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """Which hosts had fetches that were due, at one moment of the sites' clock."""

    at_ns: int
    hosts: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of a run; the fields are those of `manage.py demo --json`.

    `shortest_gap_ratio` is of the interval, `used_share` of what the rates allowed while there was a backlog; those
    of unread numbers are described by Unread, those of e-mails by Emails.
    """

    fetched: int
    failed: int
    sites: int
    early_starts: int
    shortest_gap_ratio: float
    used_share: float
    lateness_p50_ms: float
    lateness_p99_ms: float
    notified: int
    marked_read: int
    unread_reads: int
    unread_flushes: int
    unread_rows_written: int
    unread_drift: int
    shipped: int
    emails_sent: int
    emails_failed: int
    emails_unknown: int
    emails_received_twice: int
    emails_never_received: int
    mailers_killed: int

    @property
    def broken(self) -> int:
        """How many times a promise was."""
        return self.early_starts + self.unread_drift + self.emails_received_twice + self.emails_never_received


def measure(
    arrivals: Sequence[Arrival],
    intervals: Mapping[str, float],
    backlogs: Sequence[Backlog],
    *,
    totals: Totals,
    unread: Unread,
    emails: Emails,
) -> Figures | None:
    """Return the figures, None if too little came to judge. `intervals` are each host's, in seconds."""
    times = times_by_host(arrivals)
    ratios = gap_ratios(arrivals, intervals)
    used = used_share(times, intervals, backlogs)
    if not ratios or used is None:
        return None
    return Figures(
        fetched=totals.fetched,
        failed=totals.failed,
        sites=len(intervals),
        early_starts=sum(early_starts(of_host, intervals[host]) for host, of_host in times.items()),
        shortest_gap_ratio=min(ratios),
        used_share=round(used, 4),
        lateness_p50_ms=round(totals.lateness_p50_ms, 3),
        lateness_p99_ms=round(totals.lateness_p99_ms, 3),
        **asdict(unread),
        **asdict(emails),
    )


def used_share(
    times: Mapping[str, Sequence[int]], intervals: Mapping[str, float], backlogs: Sequence[Backlog]
) -> float | None:
    """Return the requests that came over those that could have, while there was a backlog; None before any.

    In each window a host could have been asked at its first request and every interval after it. Unlike the
    share from first to last request, this also counts a site that came to a stand-still with work to do.
    """
    came = possible = 0
    for host, interval_s in intervals.items():
        for from_ns, until_ns in windows(backlogs, host):
            held = [at_ns for at_ns in times.get(host, ()) if from_ns <= at_ns <= until_ns]
            if held:
                came += len(held)
                possible += 1 + int((until_ns - held[0]) / (interval_s * NANOSECONDS))
    return came / possible if possible else None


def windows(backlogs: Iterable[Backlog], host: str) -> list[tuple[int, int]]:
    """Return from when to when the host had a backlog at every look, each as (first, last) look."""
    found: list[tuple[int, int]] = []
    is_open = False
    for backlog in backlogs:
        if host not in backlog.hosts:
            is_open = False
        elif is_open:
            found[-1] = (found[-1][0], backlog.at_ns)
        else:
            found.append((backlog.at_ns, backlog.at_ns))
            is_open = True
    return found
