"""Fetchers that are stopped at random moments, for random times; and what the sites and the fetchers say about it.

A start *out of its time* is one that the fetcher itself has reported. It may be less than an interval away from the
start before it, and from the start behind it, which was on its way in another process. All other starts must keep the
interval.
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from demo.fakes.children import die_with_parent
from demo.fakes.site_log import Arrival
from weir.ratelimit.pacing import CONFIRMED_FOR_S

SHORTEST_S, LONGEST_S = 0.0002, 2.5  # of a stop: less than the margin of a run, longer than a slot is reserved
EVERY_S = 0.25  # between two stops of a fetcher, on average: each moment is as likely as any other


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A start out of its time, as its fetcher has logged it."""

    at_ns: int
    site: str
    fetch: int


@dataclass(frozen=True, kw_only=True)
class SetBehind:
    """When PostgreSQL knew at the latest that a site had a start out of its time, as the fetcher has logged it."""

    at_ns: int
    site: str


Gap = tuple[Arrival, Arrival]


def stop_at_random(pid: int, times: int, chance: random.Random) -> list[float]:
    """Stop a process this many times, and let it go on; returns how long each stop lasted, in seconds."""
    lasted_s: list[float] = []
    with suppress(ProcessLookupError):  # it must not have ended: the test finds that by itself
        for _ in range(times):
            time.sleep(chance.expovariate(1 / EVERY_S))
            stop_s = math.exp(chance.uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))
            began_at = time.monotonic()
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(stop_s)
            finally:
                os.kill(pid, signal.SIGCONT)
            lasted_s.append(time.monotonic() - began_at)
    return lasted_s


@contextmanager
def busy_processes(count: int, seconds: float) -> Iterator[None]:
    """Run processes that never wait during the block, for `seconds` at most."""
    program = f"import time\nuntil = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass"
    with ExitStack() as leaving:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", program], preexec_fn=die_with_parent)  # noqa: PLW1509
            leaving.callback(process.wait)
            leaving.callback(process.kill)
        yield


def reported(lines: Iterable[str]) -> list[Reported]:
    """Return the starts in these log lines, which have the event `started_out_of_time`."""
    said = [json.loads(line) for line in lines]
    return [Reported(at_ns=_ns(line["timestamp"]), site=line["site"], fetch=line["fetch"]) for line in said]


def set_behind(lines: Iterable[str]) -> list[SetBehind]:
    """Return what these log lines say, which have the event `site_set_behind`."""
    said = [json.loads(line) for line in lines]
    return [SetBehind(at_ns=_ns(line["timestamp"]), site=line["site"]) for line in said]


def _ns(timestamp: str) -> int:
    at = datetime.fromisoformat(timestamp)
    return int(at.replace(microsecond=0).timestamp()) * 1_000_000_000 + at.microsecond * 1_000


def short_gaps(arrivals: Iterable[Arrival], intervals: Mapping[str, float]) -> list[Gap]:
    """Return the requests to one site that followed each other sooner than its interval, by the sites' kernel."""
    by_host = defaultdict(list)
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at_ns):
        by_host[arrival.host].append(arrival)
    return [
        (one, other)
        for host, in_turn in by_host.items()
        for one, other in pairwise(in_turn)
        if other.at_ns - one.at_ns < round(intervals[host] * 1e9)
    ]


def out_of_time(
    arrivals: Iterable[Arrival], starts: Iterable[Reported], pages: Mapping[int, tuple[str, str]]
) -> set[Arrival]:
    """Return the requests that were reported; `pages` has the host and the path of each fetch.

    A fetcher logs right after the write: the line is about the last request of that fetch that had come by then.
    """
    by_page = defaultdict(list)
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at_ns):
        by_page[arrival.host, arrival.path].append(arrival)
    found = set()
    for start in starts:
        came = by_page[pages[start.fetch]]
        if before := bisect_right(came, start.at_ns, key=lambda arrival: arrival.at_ns):
            found.add(came[before - 1])
    return found


def unreported(short: Iterable[Gap], late: set[Arrival]) -> list[Gap]:
    """Return the short gaps that neither begin nor end with a start that its fetcher has reported."""
    return [gap for gap in short if late.isdisjoint(gap)]


def too_close_behind(short: Iterable[Gap], late: set[Arrival], known: Sequence[SetBehind]) -> list[Gap]:
    """Return the short gaps behind reported starts that end with a start whose holder must have known of those.

    Half a second after PostgreSQL knows, nothing starts that was reserved before (weir.ratelimit.pacing).
    """
    found = []
    for one, other in short:
        if one in late and other not in late:
            since_ns = [set_.at_ns for set_ in known if set_.site.startswith(f"{one.host}:") and set_.at_ns > one.at_ns]
            if since_ns and other.at_ns > min(since_ns) + round(CONFIRMED_FOR_S * 1e9):
                found.append((one, other))
    return found
