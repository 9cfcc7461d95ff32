"""A site that asks for patience gets it, from all fetchers at the same time, and nothing is lost by it.

Judged by the sites' logs: when a refusal was sent, and what their kernel says arrived afterwards.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.db.models import Q

from demo.fakes import judge, site_log, sites
from tests.acceptance.conftest import Cluster, all_ended, set_rates, states, used_share
from tests.acceptance.judging import early
from tests.waiting import in_time, wait_for
from weir.ratelimit.models import Slot
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import FetchState

SEEN_AFTER_S = 0.2  # from then on no fetcher may start anything at a site that has refused
GOES_ON_WITHIN_S = 2.0  # after the rest: dispatch ticks each second


@dataclass(frozen=True, kw_only=True)
class Busy:
    """A site that refuses for a second, from one request on, and how long its site must rest after that."""

    rate: str
    first: int
    status: int
    retry_after: str
    at_least_s: float
    at_most_s: float

    @property
    def path(self) -> str:
        """Return the beginning of all paths at this site."""
        return f"/busy/{self.first}/1000/{self.status}/{self.retry_after}"


BUSY = (
    Busy(rate="20/s", first=40, status=429, retry_after="3", at_least_s=3.0, at_most_s=3.0),
    Busy(rate="40/s", first=80, status=429, retry_after="3", at_least_s=3.0, at_most_s=3.0),
    Busy(rate="50/s", first=100, status=429, retry_after="3", at_least_s=3.0, at_most_s=3.0),
    Busy(rate="20/s", first=20, status=503, retry_after="-", at_least_s=5.0, at_most_s=7.5),  # by chance
)
UNDISTURBED = ("5/s", "10/s", "25/s")
UNDISTURBED_S = 9.0  # of work


@dataclass(frozen=True, kw_only=True)
class Rest:
    """How a site rested after its first refusal was sent, at `since_ns`."""

    since_ns: int
    refusals: int
    disturbed: int  # requests from 200 ms after a refusal until the time that it asked for was over
    goes_on_ns: float  # the first request afterwards
    late_s: float  # how late that was
    held: int  # slots that were reserved before, not used yet, and could have been used longer than for 200 ms


def test_a_site_that_is_refused_rests_everywhere_at_once_and_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """From 200 ms after a first 429, nothing comes until its Retry-After is over, although 3 fetchers hold slots.

    After a 503 without one the site rests, too. Then it goes on at its pace; other sites notice nothing; each URL ends
    with a page, which was sent once.
    """
    rates = [busy.rate for busy in BUSY] + list(UNDISTURBED)
    with sites.running(len(rates), tmp_path) as running:
        intervals = set_rates(running, dict(zip(running.hosts, rates, strict=True)))
        busy_hosts = dict(zip(running.hosts, BUSY, strict=False))
        undisturbed = {host: intervals[host] for host in running.hosts[len(BUSY) :]}
        cluster.start_together("fetcher-1", "fetcher-2", "fetcher-3", "ticks", "beat")
        urls = [
            *(running.url(place, f"{busy.path}/{n}") for place, busy in enumerate(BUSY) for n in range(2 * busy.first)),
            *(
                running.url(len(BUSY) + place, f"/ok/{n}")
                for place, interval in enumerate(undisturbed.values())
                for n in range(int(UNDISTURBED_S / interval))
            ),
        ]
        request_fetches(urls, max_attempts=20)
        wait_for(all_ended, 60, f"all fetches to end: {states()}")

    arrivals, _ = site_log.read_arrivals(running.log)
    answers, _ = site_log.read_answers(running.answers)
    rests = {host: _rest(running, host, busy, arrivals, answers) for host, busy in busy_hosts.items()}
    _report(busy_hosts, rests)
    told = [rest for host, rest in rests.items() if busy_hosts[host].status == 429]
    from_ns, until_ns = min(rest.since_ns for rest in told), int(max(rest.goes_on_ns for rest in told))
    share = used_share(arrivals, undisturbed, from_ns, until_ns)
    print(f"used by the others meanwhile: {share:.1%}")
    assert sum(rest.disturbed for rest in rests.values()) == 0
    assert early(arrivals, intervals) == 0
    assert states() == {FetchState.DONE: len(urls)}
    assert all(any(f"{host}:" in line for line in cluster.logged("site_backed_off")) for host in busy_hosts)
    pages = Counter(f"http://{page.host}:{running.port}{page.path}" for page in answers if page.status == 200)
    assert pages == dict.fromkeys(urls, 1)
    assert all(rest.held for rest in told), "fetchers must have held slots that could not be used any more"
    late_s = max(rest.late_s for rest in rests.values())
    in_time(late_s < GOES_ON_WITHIN_S, f"a site went on {late_s:.1f} s after its rest")
    in_time(share > 0.9, f"other sites got {share:.1%} of their rates")


def _rest(
    running: sites.Sites, host: str, busy: Busy, arrivals: list[site_log.Arrival], answers: list[site_log.Answered]
) -> Rest:
    """Judge the rest of one site by the logs."""
    times = judge.times_by_host(arrivals)[host]
    refused = sorted(answer.at_ns for answer in answers if answer.host == host and answer.status == busy.status)
    # Each Retry-After counts from its own refusal; without one, simultaneous refusals count as one.
    counting = refused if busy.retry_after.isdigit() else refused[:1]
    asked_for = [(at_ns + _ns(SEEN_AFTER_S), at_ns + _ns(busy.at_least_s)) for at_ns in counting]
    goes_on_ns = min((at_ns for at_ns in times if at_ns >= asked_for[-1][1]), default=math.inf)
    return Rest(
        since_ns=refused[0],
        refusals=len(refused),
        disturbed=sum(any(begin < at_ns < end for begin, end in asked_for) for at_ns in times),
        goes_on_ns=goes_on_ns,
        late_s=(goes_on_ns - counting[-1]) / judge.NANOSECONDS - busy.at_most_s,
        held=Slot.objects.filter(
            Q(finished_at__isnull=True) | Q(finished_at__gt=_time(refused[0])),
            site__name=f"{host}:{running.port}",
            reserved_at__lt=_time(refused[0]),
            use_until__gt=_time(asked_for[0][0]),
        ).count(),
    )


def _report(busy_hosts: Mapping[str, Busy], rests: Mapping[str, Rest]) -> None:
    for host, rest in rests.items():
        busy = busy_hosts[host]
        print(
            f"\n{busy.rate}, {busy.status}, Retry-After: {busy.retry_after}: refused {rest.refusals}, "
            f"held {rest.held} slots, disturbed by {rest.disturbed}, went on {rest.late_s:+.3f} s after the rest",
            end="",
        )
    late = [rest.late_s for host, rest in rests.items() if busy_hosts[host].status == 429]
    print(f"\nspread of going on after Retry-After: {max(late) - min(late):.3f} s")


def _ns(seconds: float) -> int:
    return round(seconds * judge.NANOSECONDS)


def _time(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / judge.NANOSECONDS, UTC)
