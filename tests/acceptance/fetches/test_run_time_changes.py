"""Changes by operators and web code while real fetchers hold slots, judged by the sites' own log."""

import time
from itertools import pairwise
from pathlib import Path

from demo.fakes import site_log, sites
from tests.acceptance.conftest import Cluster, set_rates
from tests.waiting import in_time, wait_for
from weir.ratelimit import site_settings
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

RATED, CANCELLED, STEADY = range(3)


def arrivals_at(running: sites.Sites, place: int) -> list[site_log.Arrival]:
    """Return what a site has seen, in order."""
    seen = [arrival for arrival in site_log.read_arrivals(running.log)[0] if arrival.host == running.hosts[place]]
    return sorted(seen, key=lambda arrival: arrival.at_ns)


def seen_between(running: sites.Sites, place: int, from_ns: int, until_s: float) -> list[int]:
    """Wait until `until_s` after a moment; return when the site was asked meanwhile."""
    until_ns = from_ns + int(until_s * 1e9)
    wait_for(lambda: time.time_ns() > until_ns + 200_000_000, until_s + 10, "the measured time")
    return [arrival.at_ns for arrival in arrivals_at(running, place) if from_ns <= arrival.at_ns < until_ns]


def test_new_rates_and_cancelled_fetches_reach_all_fetchers_within_a_second(cluster: Cluster, tmp_path: Path) -> None:
    """2/s, 20/s, 1/s: each holds a second after it was set. Cancelled fetches are not sent, no slot is lost."""
    with sites.running(3, tmp_path) as running:
        set_rates(running, dict(zip(running.hosts, ("2/s", "4/s", "4/s"), strict=True)))
        site = f"{running.hosts[RATED]}:{running.port}"
        cluster.start_together("ticks", "fetcher-1", "fetcher-2", "beat")
        request_fetches([running.url(RATED, f"/ok/{n}") for n in range(300)])
        request_fetches([running.url(STEADY, f"/ok/{n}") for n in range(300)])
        wait_for(lambda: len(arrivals_at(running, RATED)) >= 4, 20, "the first requests")

        doomed = request_fetches([running.url(CANCELLED, f"/ok/{n}") for n in range(60)])
        wait_for(lambda: arrivals_at(running, CANCELLED), 10, "the site of the cancelled")
        site_settings.set_rate(site, "20/s")
        faster_ns = time.time_ns()
        refused_ns = {fetch.url: time.time_ns() for fetch in doomed[1::2] if not cancel(fetch.pk)}
        taken_back = {fetch.url for fetch in doomed[1::2]} - refused_ns.keys()
        faster = seen_between(running, RATED, faster_ns + 1_000_000_000, 2.0)

        site_settings.set_rate(site, "1/s")
        slower_ns = time.time_ns()
        slower = seen_between(running, RATED, slower_ns + 500_000_000, 3.5)
        assert all(later - earlier >= 1_000_000_000 for earlier, later in pairwise(slower))

        wait_for(lambda: not Fetch.objects.unfinished().filter(pk__in=[f.pk for f in doomed]).exists(), 20, "the end")
    times = [arrival.at_ns for arrival in arrivals_at(running, RATED)]
    assert min(later - earlier for earlier, later in pairwise(times)) >= 50_000_000, "never faster than any rate"
    cancelled = arrivals_at(running, CANCELLED)
    asked_ns = {f"http://{arrival.host}:{running.port}{arrival.path}": arrival.at_ns for arrival in cancelled}
    assert asked_ns.keys() == {fetch.url for fetch in doomed} - taken_back
    assert Fetch.objects.filter(state=FetchState.CANCELLED).count() == len(taken_back)
    at_ns = [arrival.at_ns for arrival in cancelled]
    assert min(later - earlier for earlier, later in pairwise(at_ns)) >= 250_000_000
    in_time(len(faster) >= 34, f"{len(faster)} of the 40 that two seconds allow")
    in_time(len(slower) >= 2, f"{len(slower)} of the 3 that three seconds and a half allow")
    waited_s = max(((asked_ns[url] - at) / 1e9 for url, at in refused_ns.items()), default=0)
    in_time(waited_s < CONFIRMED_FOR_S + 0.5, f"what could not be cancelled any more came {waited_s:.1f} s later")
    in_time(len(taken_back) >= 25, f"{len(taken_back)} of 30 were cancelled before their turn")
    in_time((at_ns[-1] - at_ns[0]) / 1e9 < 1.15 * len(at_ns) / 4, "others did not use the slots of the cancelled")
