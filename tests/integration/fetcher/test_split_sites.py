"""A host that gets a site of its own is asked at the rate of that site, whatever its old site had promised.

The fake site's own log is the judge: by the kernel's clock, no gap before a request that arrives half a second after
the split, or later, is shorter than the interval of the host's new site.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from django.db import connections, transaction
from pytest_django import Settings

from demo.fakes import site_log, sites
from tests.integration.conftest import Eventually, InThreads, Message
from weir.ratelimit import clock, site_settings
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.workers import task_names
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = pytest.mark.django_db(transaction=True)

SHOP, A, B = "shop.test", "a.shop.test", "b.shop.test"
NANOSECONDS = 1_000_000_000


@pytest.fixture
def shop(running_sites: sites.Sites, monkeypatch: pytest.MonkeyPatch) -> sites.Sites:
    """Three names for the three fake sites."""
    addresses, real = dict(zip((SHOP, A, B), running_sites.hosts, strict=True)), socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        return real(addresses.get(str(host), host), *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return running_sites


@contextmanager
def working(fetcher: Fetcher, messages: list[Message]) -> Iterator[None]:
    """Dispatch and sweep as for beat's ticks, but more often, and hand each message to the fetcher."""
    stopped = threading.Event()

    def beat() -> None:
        taken, swept_at = 0, 0.0
        with ThreadPoolExecutor(8) as threads:
            while not stopped.wait(0.05):
                dispatch()
                if clock.now() > swept_at + 0.5:
                    sweep()
                    swept_at = clock.now()
                for name, arguments in messages[taken:]:
                    taken += 1
                    if name == task_names.FETCH_BATCH:
                        threads.submit(fetcher.run_batch, *arguments)
        connections.close_all()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        Site.objects.update(has_backlog=False, paused_until="9999-01-01T00:00Z")
        fetcher.stop_starting()
        stopped.set()
        thread.join()


def name_of(shop: sites.Sites, host: str) -> str:
    return f"{host}:{shop.port}"


def ask(shop: sites.Sites, host: str, count: int, *, path: str = "ok") -> list[Fetch]:
    return list(request_fetches([f"http://{host}:{shop.port}/{path}/{n}" for n in range(count)]))


def times(shop: sites.Sites, host: str) -> list[int]:
    address = shop.hosts[(SHOP, A, B).index(host)]
    return sorted(arrival.at_ns for arrival in site_log.read_arrivals(shop.log)[0] if arrival.host == address)


def shortest_gap_s(at_ns: list[int], since_ns: int) -> float:
    """Return the shortest gap before a request that arrived after `since_ns`."""
    gaps = [later - earlier for earlier, later in pairwise(at_ns) if later > since_ns]
    assert len(gaps) >= 2, "enough requests to judge"
    return min(gaps) / NANOSECONDS


def split(change: Callable[[], None]) -> int:
    """Change what belongs to which site; returns the time from which the new intervals must hold."""
    began_ns = time.time_ns()
    change()
    return began_ns + round((CONFIRMED_FOR_S + 0.1) * NANOSECONDS)  # the commit is a few milliseconds after the call


def site_names(host: str) -> set[str]:
    """Return the names of the sites at which the unfinished fetches of the host are."""
    found = Fetch.objects.unfinished().filter(url__contains=f"//{host}:").values_list("site_id", flat=True)
    return set(Site.objects.filter(pk__in=found).values_list("name", flat=True))


def test_a_host_that_gets_a_rate_of_its_own_is_never_asked_faster(
    shop: sites.Sites, fetcher: Fetcher, messages: list[Message], eventually: Eventually
) -> None:
    """Its backlog at the site that covered it follows; slots that were reserved there are not used; others go on."""
    site_settings.set_rate(name_of(shop, SHOP), "20/s", covers_subdomains=True)
    ask(shop, A, 100)
    ask(shop, SHOP, 200)
    with working(fetcher, messages):
        eventually(lambda: len(times(shop, A)) >= 5, "requests at the rate of the site that covers it")
        since_ns = split(lambda: site_settings.set_rate(name_of(shop, A), "1/s"))
        ask(shop, A, 2, path="ok/new")
        eventually(lambda: sum(at > since_ns for at in times(shop, A)) >= 3, "requests at the host's own rate")
        assert site_names(A) == {name_of(shop, A)}
        left = len(times(shop, SHOP))
        eventually(lambda: len(times(shop, SHOP)) > left + 10, "requests of the other hosts")
    assert shortest_gap_s(times(shop, A), since_ns) >= 1.0
    assert shortest_gap_s(times(shop, SHOP), 0) >= 0.05


def test_hosts_that_are_covered_no_more_are_each_asked_at_the_default_rate(
    shop: sites.Sites, fetcher: Fetcher, messages: list[Message], eventually: Eventually, settings: Settings
) -> None:
    """They get sites of their own, whose clocks begin where the old one ended."""
    settings.WEIR_DEFAULT_RATE = "1/s"
    site_settings.set_rate(name_of(shop, SHOP), "20/s", covers_subdomains=True)
    for host in (A, B, SHOP):
        ask(shop, host, 100)
    with working(fetcher, messages):
        eventually(lambda: len(times(shop, A)) >= 5, "requests at the rate of the site that covers it")
        since_ns = split(lambda: site_settings.set_rate(name_of(shop, SHOP), covers_subdomains=False))
        ask(shop, B, 2, path="ok/new")
        for host in (A, B):
            eventually(lambda: sum(at > since_ns for at in times(shop, host)) >= 3, "requests at their own rate")  # noqa: B023  called here
            assert site_names(host) == {name_of(shop, host)}
    for host in (A, B):
        assert shortest_gap_s(times(shop, host), since_ns) >= 1.0


def test_a_fetch_that_is_committed_after_the_split_follows(
    shop: sites.Sites, fetcher: Fetcher, messages: list[Message], eventually: Eventually, in_threads: InThreads
) -> None:
    """Its site was looked up before. However late it comes, it is not requested in a slot of the old site."""
    site_settings.set_rate(name_of(shop, SHOP), "20/s", covers_subdomains=True)
    with working(fetcher, messages):
        with transaction.atomic():
            late = ask(shop, A, 30)
            [since_ns] = in_threads(1, lambda _: split(lambda: site_settings.set_rate(name_of(shop, A), "1/s")))
            eventually(lambda: not Site.objects.filter(has_strays=True).exists(), "sweep to have seen to all others")
        eventually(lambda: len(times(shop, A)) >= 4, "requests at the host's own rate")
    assert shortest_gap_s(times(shop, A), since_ns) >= 1.0
    started = Fetch.objects.filter(pk__in=[fetch.pk for fetch in late], state=FetchState.DONE)
    of_slots = Slot.objects.filter(pk__in=started.values("slot_id")).values_list("site__name", flat=True)
    assert set(of_slots) == {name_of(shop, A)}
