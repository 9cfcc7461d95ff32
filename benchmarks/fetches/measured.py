"""What the sites' own log says of the middle of a turn: how much of the rates was used, and which starts were early."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from demo.fakes import judge, site_log, sites
from weir.ratelimit.models import Slot


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The time that counts, in ns of the log's clock."""

    log: Path
    from_ns: int
    until_ns: int
    given_back: int  # slots of the sites in which nothing started

    def used_share(self, hosts: Sequence[str], per_s: float) -> float:
        """Return the requests to these sites as a share of those that their rate allows."""
        counted = [at for times in self._times(hosts) for at in times if self.from_ns <= at < self.until_ns]
        return len(counted) / (len(hosts) * per_s * (self.until_ns - self.from_ns) / judge.NANOSECONDS)

    def early_starts(self, hosts: Sequence[str], per_s: float) -> int:
        """Return how many requests came too early at one of these sites, including those before and after that time."""
        return sum(judge.early_starts(times, 1 / per_s) for times in self._times(hosts))

    def _times(self, hosts: Sequence[str]) -> list[list[int]]:
        times = judge.times_by_host(site_log.read_arrivals(self.log)[0])
        return [times[host] for host in hosts if host in times]


def measured(running: sites.Sites, seconds: float) -> Measured:
    """Wait for the time that counts, while the fetchers run: when they end, they give back what they hold.

    RuntimeError if no request has reached the sites by then.
    """
    from_ns = time.time_ns()
    time.sleep(seconds)
    until_ns = time.time_ns()
    time.sleep(site_log.READ_WITHIN_S)
    if not running.log.exists():
        raise RuntimeError("No request reached the sites.")
    return Measured(
        log=running.log, from_ns=from_ns, until_ns=until_ns, given_back=_given_back(running, from_ns, until_ns)
    )


def _given_back(running: sites.Sites, *times_ns: int) -> int:
    times = [datetime.fromtimestamp(ns / judge.NANOSECONDS, UTC) for ns in times_ns]  # PostgreSQL is on this host
    names = [f"{host}:{running.port}" for host in running.hosts]
    return Slot.objects.filter(site__name__in=names, released_at__isnull=False, start_time__range=times).count()
