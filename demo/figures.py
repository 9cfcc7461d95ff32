"""The figures of a run of the demo: pure functions of the sites' log and of when each site had a backlog."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from demo.fakes.judge import NANOSECONDS, early_starts, gap_ratios, times_by_host
from demo.fakes.site_log import Arrival


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """All fetches, by the database."""

    fetched: int = 0
    failed: int = 0
    failed_on_purpose: int = 0  # of pages that answer 500, or close the connection, however often they are asked
    lateness_p50_ms: float = 0.0  # from the start of the slot to the writing of the request
    lateness_p99_ms: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """The users' notifications and unread numbers."""

    notified: int = 0  # notifications
    marked_read: int = 0
    unread_reads: int = 0  # calls that asked for unread numbers, of some users each
    unread_flushes: int = 0
    unread_rows_written: int = 0  # of UnreadCount, by these flushes
    unread_drift: int = 0  # users whose unread number ever differed from COUNT(*)


@dataclass(frozen=True, kw_only=True, slots=True)
class Emails:
    """The e-mails of shipped orders, while processes that send them are killed."""

    shipped: int = 0  # orders, with an e-mail each
    emails_sent: int = 0
    emails_failed: int = 0
    emails_unknown: int = 0
    emails_received_twice: int = 0  # or more often, by the mail server's list
    emails_never_received: int = 0  # of those sent, by the same list; counted at the end
    mailers_killed: int = 0

    @property
    def pending(self) -> int:
        """How many have no final state yet."""
        return self.shipped - self.emails_sent - self.emails_failed - self.emails_unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """The hosts with fetches that were due at one time of the sites' clock."""

    at_ns: int
    hosts: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of a run; the fields are those of `manage.py demo --json`.

    `shortest_gap_ratio` is in intervals; `used_share` is the share of what the rates allowed while there was a backlog.
    Unread and Emails describe the other fields.
    """

    fetched: int
    failed: int
    failed_on_purpose: int
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
        """How often a promise was broken."""
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
    """Return the figures, None if too few requests came to judge. `intervals` are those of each host, in seconds."""
    times = times_by_host(arrivals)
    ratios = gap_ratios(arrivals, intervals)
    used = used_share(times, intervals, backlogs)
    if not ratios or used is None:
        return None
    return Figures(
        fetched=totals.fetched,
        failed=totals.failed,
        failed_on_purpose=totals.failed_on_purpose,
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
    """Return the requests that came as a share of those that could have come while there was a backlog.

    In each window a host could have been asked at its first request and every interval after it. Unlike the share from
    the first request to the last, this counts a site that stands still with work to do. None before any request.
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
    """Return the times of the first and the last of each series of looks at which the host had a backlog."""
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
