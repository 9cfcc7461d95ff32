"""One fault after the other hits real processes under load: no site is asked early, nothing is lost, work goes on soon.

No process of Weir is asked when a request was sent: the sites' kernel says when it came.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce
from pytest_django import DjangoDbBlocker, Settings

from demo.fakes import judge, site_log, sites
from tests.acceptance import fault_chain, networks
from tests.acceptance.conftest import all_ended, states
from tests.acceptance.fault_chain import Chain
from tests.acceptance.faults import faults
from tests.acceptance.faults.faults import Fault
from weir.conf.texts.rates import parse_rate
from weir.ratelimit import site_settings
from weir.workers import broker_link
from weir.workers.fetches.enqueue import request_fetches
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [
    pytest.mark.alone,
    pytest.mark.faults,
    pytest.mark.skipif("WEIR_FAULTS" not in os.environ, reason="takes minutes: make faults"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run PostgreSQL in a network of its own"),
]

SITES = 12
RATES = ("1/s", "2/s", "3/s", "4/s")
PATHS = ("/ok", "/once")  # the site keeps the connection, or closes it
COVERING, SPLIT_OFF = "shop.test", "a.shop.test"  # names of two more sites
SHOPS = COVERING, SPLIT_OFF
SHOP_PAGES = 8  # of each
PAGES_OF_PATH = 8  # large ones, of each site
COVERING_RATE, SPLIT_RATE = "2/s", "1/3s"
HOLD_S = float(os.environ.get("WEIR_FAULTS_HOLD", "6"))  # longer than most time-outs
AHEAD_S = HOLD_S + 20  # of work for each site when a fault begins: there is some left when it ends
GOES_ON_WITHIN_S = 10.0
GIVE_UP_AFTER_S = 60.0
# The kernel repeats what was written while the cable was pulled until it arrives: the promise is about writing.
DELAYED_S = 10.0  # after this, nothing of that can come any more
ON_TIME_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Told:
    """What happened during one fault."""

    fault: str
    began_ns: int
    ended_ns: int
    during: int  # requests
    failed: int  # attempts that were counted, and not done
    errors: list[str]  # of fetches that wait
    restarts: list[str]


@contextmanager
def database_of(chain: Chain) -> Iterator[None]:
    """Make this process use the database of the chain."""
    before = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(HOST=str(chain.sockets), NAME="weir", USER="postgres", PORT="")
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)
        broker_link.forget_outage()


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder for servers, which PostgreSQL's user can read."""
    folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
    folder.chmod(0o711)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


def test_work_goes_on_after_every_fault(
    home: Path, tmp_path: Path, django_db_blocker: DjangoDbBlocker, settings: Settings
) -> None:
    """Cables, stopped processes, servers that refuse, freeze or die, ceilings, and a split, in one run."""
    settings.WEIR_FETCH_ALLOW_NETS = [networks.ALLOW_NETS]
    hosts_file = tmp_path / "hosts"
    with fault_chain.running(tmp_path, home, hosts_file) as chain, django_db_blocker.unblock(), database_of(chain):
        inside = chain.separate.sites.enter
        with sites.running(SITES + len(SHOPS), tmp_path, network=networks.SITES, inside=inside) as running:
            names = dict(zip(SHOPS, running.hosts[SITES:], strict=True))
            hosts_file.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
            chain.start_all()
            load = Load(running)
            told = [went_by(chain, load, fault) for fault in all_faults(chain, running.port)]
            load.top_up()
            chain.wait_for(all_ended, 180, f"all fetches to end: {states()}")
        arrivals = site_log.read_arrivals(running.log)[0]
        late = delayed(arrivals, told)
        punctual = [arrival for arrival in arrivals if arrival not in late]
        early = sum(judge.early_starts(times, interval_s) for times, interval_s in by_site(punctual, told, load))
        goes_on_s = {each.fault: firsts(punctual, load, each.ended_ns) for each in told}
        report(told, goes_on_s)
        print(f"requests: {len(arrivals)}  early: {early}  of all but {len(late)} that a cable delayed")
        print(f"fetches: {states()}  attempts that failed: {failed_attempts()}  restarts: {chain.restarts}")
        assert early == 0
        assert states() == {FetchState.DONE: len(load.urls)}
        assert {fault: seconds for fault, seconds in goes_on_s.items() if seconds[0] > GOES_ON_WITHIN_S} == {}


def all_faults(chain: Chain, port: int) -> list[Fault]:
    """Return the faults in their order."""
    return [
        *(fault_chain.cable(chain, to) for to in ("PostgreSQL", "broker", "sites")),
        *(faults.frozen(chain, kind) for kind in ("worker", "ticks", "fetcher", "beat", "mailer")),
        faults.redis_full(chain),
        faults.redis_read_only(chain),
        faults.postgres_frozen(chain),
        faults.postgres_killed(chain),
        faults.postgres_read_only(chain),
        fault_chain.few_descriptors(chain),
        fault_chain.little_memory(chain),
        fault_chain.split(chain, SPLIT_OFF, port, SPLIT_RATE),
    ]


class Load:
    """The fetches that are asked for: each site has work for some seconds."""

    def __init__(self, running: sites.Sites) -> None:
        self.running = running
        self.urls: list[str] = []
        self._numbers = count()
        self._names = {host: f"{host}:{running.port}" for host in running.hosts[:SITES]}
        self._rates = {host: RATES[place % len(RATES)] for place, host in enumerate(self._names)}
        for host, rate in self._rates.items():
            site_settings.set_rate(self._names[host], rate)
        site_settings.set_rate(f"{COVERING}:{running.port}", COVERING_RATE, covers_subdomains=True)
        self.intervals = {host: parse_rate(rate).total_seconds() for host, rate in self._rates.items()}

    def seen(self) -> list[site_log.Arrival]:
        return site_log.read_arrivals(self.running.log)[0]

    def top_up(self, path: str = "") -> None:
        """Ask for what each site can do in AHEAD_S, less its remaining work; and before that for pages of a path."""
        waiting = dict(Fetch.objects.unfinished().values_list("site__name").annotate(Count("pk")))
        self._request([host for host in self._names for _ in range(PAGES_OF_PATH if path else 0)], path, priority=1)
        for place, (host, name) in enumerate(self._names.items()):
            missing = int(AHEAD_S / self.intervals[host]) - waiting.get(name, 0)
            self._request([host] * missing, PATHS[place // len(RATES) % len(PATHS)])
        if not waiting.get(f"{COVERING}:{self.running.port}"):
            self._request(SHOPS * SHOP_PAGES, PATHS[0])

    def _request(self, hosts: Sequence[str], path: str, *, priority: int = 0) -> None:
        urls = [f"http://{host}:{self.running.port}{path}/{next(self._numbers)}" for host in hosts]
        self.urls += urls
        request_fetches(urls, max_attempts=100, priority=priority)


def went_by(chain: Chain, load: Load, fault: Fault) -> Told:
    """Let a fault hit the processes under load, and wait until every site is asked again."""
    load.top_up()
    calm_ns = time.time_ns()
    chain.wait_for(lambda: all_asked(load, calm_ns), GIVE_UP_AFTER_S, f"calm before: {fault.name}")
    already, failed_before = len(chain.restarts), failed_attempts()
    load.top_up(fault.path)
    with fault.happens():
        began_ns = time.time_ns()
        until = time.monotonic() + HOLD_S
        chain.wait_for(lambda: time.monotonic() > until, HOLD_S + 5, "the time of the fault")
    connection.close()  # it may have ended with the server
    ended_ns = time.time_ns()
    errors = list(Fetch.objects.unfinished().exclude(error="").values_list("error", flat=True).distinct()[:3])
    chain.wait_for(lambda: all_asked(load, ended_ns), GIVE_UP_AFTER_S, f"requests to all sites after: {fault.name}")
    told = Told(
        fault=fault.name,
        began_ns=began_ns,
        ended_ns=ended_ns,
        during=sum(began_ns < arrival.at_ns <= ended_ns for arrival in load.seen()),
        failed=failed_attempts() - failed_before,
        errors=errors,
        restarts=chain.restarts[already:],
    )
    print(told, flush=True)
    return told


def failed_attempts() -> int:
    """Return how many attempts were counted and did not end in a result."""
    done = Count("pk", filter=Q(state=FetchState.DONE))
    counted = Fetch.objects.aggregate(failed=Coalesce(Sum("attempts"), 0) - done)
    return int(counted["failed"])


def firsts(arrivals: list[site_log.Arrival], load: Load, since_ns: int) -> list[float]:
    """Return how many seconds after this moment each of the sites with a rate was first asked, soonest first."""
    after: dict[str, int] = {}
    for arrival in arrivals:
        if arrival.at_ns > since_ns and arrival.host in load.intervals:
            after[arrival.host] = min(arrival.at_ns, after.get(arrival.host, arrival.at_ns))
    return sorted((at_ns - since_ns) / 1e9 for at_ns in after.values())


def all_asked(load: Load, since_ns: int) -> bool:
    return len(firsts(load.seen(), load, since_ns)) == SITES


def delayed(arrivals: list[site_log.Arrival], told: list[Told]) -> set[site_log.Arrival]:
    """Return the requests that came when the cable to the sites was put back, although they were written before.

    Their fetches were given up and requested again later, or they record that they started long before.
    """
    [cable] = [each for each in told if each.fault.endswith("cable to sites")]
    last = {arrival.path: arrival.at_ns for arrival in sorted(arrivals, key=lambda arrival: arrival.at_ns)}
    noted = {
        urlsplit(url).path: started_at.timestamp() + ON_TIME_S
        for url, started_at in Fetch.objects.values_list("url", "started_at")
        if started_at
    }
    return {
        arrival
        for arrival in arrivals
        if cable.ended_ns <= arrival.at_ns + ON_TIME_S * 1e9 <= cable.ended_ns + DELAYED_S * 1e9
        and (arrival.at_ns < last[arrival.path] or arrival.at_ns > noted[arrival.path] * 1e9)
    }


def by_site(arrivals: list[site_log.Arrival], told: list[Told], load: Load) -> Iterator[tuple[list[int], float]]:
    """Yield the times at which each site was asked, and its interval; the last one is that of the split-off host.

    The split-off host belongs to the site that covers it until the split has been made, which waits until no recalled
    slot is used any more. Its first request afterwards is an interval of its own after its last one.
    """
    times = judge.times_by_host(arrivals)
    covering, split_off = load.running.hosts[SITES:]
    split_ns = told[-1].began_ns
    for host, interval_s in load.intervals.items():
        yield times[host], interval_s
    before = [at_ns for at_ns in times[split_off] if at_ns < split_ns]
    yield sorted(times[covering] + before), parse_rate(COVERING_RATE).total_seconds()
    yield before[-1:] + times[split_off][len(before) :], parse_rate(SPLIT_RATE).total_seconds()


def report(told: list[Told], goes_on_s: dict[str, list[float]]) -> None:
    """Print the table."""
    print("\nfault                             held  requests  first after  all sites  attempts  errors; restarts")
    for each in told:
        held_s, first_s, all_s = (
            (each.ended_ns - each.began_ns) / 1e9,
            goes_on_s[each.fault][0],
            goes_on_s[each.fault][-1],
        )
        says = "; ".join([*(each.errors if each.failed else []), *each.restarts]) or "-"
        print(
            f"{each.fault:30} {held_s:5.1f} s {each.during:9} {first_s:10.1f} s {all_s:8.1f} s {each.failed:9}  {says}"
        )
