"""Why a fetch waits, in situations with real processes, sites, PostgreSQL and a real broker.

Each situation says which answer comes first, and what is then to be done; `until` is compared with what happens then.
`-s` prints the table. Situations without processes are in tests/integration/reports/test_why_situations.py.
"""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.db.models import F

from demo.fakes import sites
from tests.acceptance.conftest import Cluster, all_ended
from tests.integration.conftest import database_now
from tests.integration.reports.remedies import check_remedy
from tests.waiting import TooLateError, comes_true, wait_for
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers import broker_link
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports.why import FetchBlocker, why
from weir.workers.processes.models import Process

pytestmark = pytest.mark.faults

KNOWN_WITHIN_S = 10.0


def headline(fetch: Fetch) -> FetchBlocker:
    found = why(fetch.pk).blockers
    for blocker in found:
        check_remedy(blocker)
    return found[0]


def kinds(fetch: Fetch) -> set[str]:
    return {blocker.kind for blocker in why(fetch.pk).blockers}


def says(situation: str, fetch: Fetch, kind: str, within_s: float = KNOWN_WITHIN_S) -> FetchBlocker:
    """Wait until this is the first answer, and print it as a row of the table."""
    began = time.monotonic()
    if not comes_true(lambda: headline(fetch).kind == kind, within_s):
        raise TooLateError(f"{situation}: {within_s:g} s later it is not {kind}, but {why(fetch.pk).blockers}")
    found = headline(fetch)
    print(f"\n{situation:42} {found.kind:16} after {time.monotonic() - began:4.1f} s: {found.text}")
    return found


def says_too(situation: str, fetch: Fetch, kind: str) -> None:
    """Wait until this is one of the answers, but not the first."""
    wait_for(lambda: kind in kinds(fetch), KNOWN_WITHIN_S, f"{kind}: {situation}")


def ends_at(fetch: Fetch, until: float, slack_s: float) -> None:
    """The request is written no sooner than `until` (a timestamp), and soon afterwards."""
    wait_for(lambda: Fetch.objects.get(pk=fetch.pk).state == FetchState.DONE, 20, "the fetch to be done")
    started_at = Fetch.objects.get(pk=fetch.pk).started_at
    assert started_at is not None
    assert until - 0.05 <= started_at.timestamp() <= until + slack_s


def test_processes_that_are_missing(cluster: Cluster, tmp_path: Path) -> None:
    """One kind after the other is missing, killed or frozen: the answer names it within ten seconds."""
    with sites.running(2, tmp_path) as running:
        site_settings.set_rate(f"{running.hosts[0]}:{running.port}", "50/s")
        page = request_fetch(running.url(0, "/ok"))
        says("no process was ever started", page, "no fetcher")
        cluster.start("fetcher", "fetcher-1")
        says("no worker of ticks was ever started", page, "no ticks")
        cluster.start("ticks", "ticks")
        says("no beat was ever started", page, "no beat")
        cluster.start("beat", "beat")
        says("all are there, and it is done", page, "ended", 20)
        _missing_later(cluster, running)


def _missing_later(cluster: Cluster, running: sites.Sites) -> None:
    """Kill, freeze and stop what has worked: two at a time, because each is known only after ten seconds."""
    site_settings.set_rate(f"{running.hosts[1]}:{running.port}", "1/h")
    waits = request_fetches([running.url(1, f"/page/{number}") for number in range(2)])[1]
    says("it waits for its turn", waits, "rate")
    os.killpg(cluster.processes["ticks"].pid, signal.SIGSTOP)
    cluster.kill("beat")
    says("the worker of ticks is frozen", waits, "no ticks")
    says_too("beat is killed", waits, "no beat")
    os.killpg(cluster.processes["ticks"].pid, signal.SIGCONT)
    says("the worker of ticks is thawed", waits, "no beat")
    cluster.start("beat", "beat")
    says("beat is back", waits, "rate")
    os.killpg(cluster.processes["ticks"].pid, signal.SIGKILL)
    cluster.processes.pop("ticks").wait()
    cluster.kill("fetcher-1")
    says("the only fetcher is killed", waits, "no fetcher")
    says_too("the worker of ticks is killed", waits, "no ticks")
    cluster.start("fetcher", "fetcher-2")
    says("another fetcher is there", waits, "no ticks")
    cluster.start("ticks", "ticks-2")
    says("another worker of ticks is there", waits, "rate")


def test_a_fetcher_that_holds_it(cluster: Cluster, tmp_path: Path) -> None:
    """In flight, at a process that is frozen or killed: the answer names that process within ten seconds."""
    cluster.environment |= {"WEIR_FETCH_TIMEOUT": "60"}
    with sites.running(1, tmp_path) as running:
        site_settings.set_rate(f"{running.hosts[0]}:{running.port}", "10/s")
        cluster.start_together("ticks", "fetcher-1", "beat")
        drips = request_fetch(running.url(0, "/drip"))
        found = says("it is in flight", drips, "in flight", 20)
        assert "fetcher-1@" in found.text
        os.killpg(cluster.processes["fetcher-1"].pid, signal.SIGSTOP)
        found = says("its fetcher is frozen", drips, "holder silent")
        assert "fetcher-1@" in found.text
        os.killpg(cluster.processes["fetcher-1"].pid, signal.SIGCONT)
        says("its fetcher is thawed", drips, "in flight")
        cluster.kill("fetcher-1")
        found = says("its fetcher is killed", drips, "holder silent")
        assert "fetcher-1@" in found.text


def test_a_site_that_refuses(cluster: Cluster, tmp_path: Path) -> None:
    """With 429, with 503 and a Retry-After, or without a connection: the answer says until when, and that holds."""
    with sites.running(2, tmp_path) as running:
        names = [f"{host}:{running.port}" for host in running.hosts]
        for name in names:
            site_settings.set_rate(name, "20/s")
        cluster.start_together("ticks", "fetcher-1", "beat")
        closed = f"{running.hosts[0]}:1"
        site_settings.set_rate(closed, "10/s")
        refused = request_fetch(f"http://{closed}/page", max_attempts=100)
        found = says("nobody listens there, and it was tried", refused, "not due", 15)
        assert "refused" in found.text
        for place, status in enumerate((429, 503)):
            request_fetch(running.url(place, f"/busy/1/500/{status}/4"))
        ends = {}
        for place, status in enumerate((429, 503)):
            refusing = Site.objects.filter(name=names[place], backed_off_until__isnull=False)
            wait_for(refusing.exists, 10, "the refusal")
            page = request_fetch(running.url(place, "/page"))
            ends[page] = says(f"the site answers {status}, Retry-After: 4", page, "backed off", 3).until
        for page, until in ends.items():
            assert until is not None
            ends_at(page, until.timestamp(), 3.0)
        wait_for(lambda: "unreachable" in kinds(refused), 15, "the site to be unreachable")
        found = says("nobody listens there", request_fetch(f"http://{closed}/other"), "unreachable", 15)
        assert "refused" in found.text


def test_the_broker_is_away_and_a_message_is_lost(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process asks the same broker as the others; a fetch whose message is lost is queued again."""
    with sites.running(1, tmp_path) as running:
        name = f"{running.hosts[0]}:{running.port}"
        site_settings.set_rate(name, "10/s")
        cluster.start_together("ticks", "fetcher-1", "beat")
        asked = broker_of(cluster)
        monkeypatch.setattr(broker_link, "waiting_in", asked)
        site_settings.pause(name)
        page = request_fetch(running.url(0, "/page"))
        says("paused, and all else is well", page, "paused")
        cluster.stop_broker()
        says("the broker is stopped", page, "broker")
        cluster.start_broker()
        says("the broker is back", page, "paused")
        site_settings.resume(name)
        wait_for(all_ended, 60, "the fetch to be done")


def broker_of(cluster: Cluster) -> Callable[[str], int]:
    """Return a function that asks the broker of the processes how many messages wait."""
    client = redis.Redis.from_url(cluster.environment["REDIS_URL"])

    def waiting_in(queue: str) -> int:
        try:
            return int(client.llen(queue))
        except redis.RedisError as error:
            raise broker_link.BrokerUnreachable(str(error)) from error

    return waiting_in


def test_times_that_are_told_are_those_at_which_it_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """A pause of three seconds, the `not_before` of a fetch, and a slot."""
    with sites.running(3, tmp_path) as running:
        names = [f"{host}:{running.port}" for host in running.hosts]
        for name in names:
            site_settings.set_rate(name, "20/s")
        cluster.start_together("ticks", "fetcher-1", "beat")
        Process.objects.update(steady_since=F("steady_since") - timedelta(hours=1))
        site_settings.pause(names[0], timedelta(seconds=3))
        paused = request_fetch(running.url(0, "/page"))
        not_due = request_fetch(running.url(1, "/page"), not_before=database_now() + timedelta(seconds=3))
        ends = {
            paused: says("paused for three seconds", paused, "paused").until,
            not_due: says("not due for three seconds", not_due, "not due").until,
        }
        for page, until in ends.items():
            assert until is not None
            ends_at(page, until.timestamp(), 3.0)
        site_settings.set_rate(names[2], "1/2s")
        first, second = request_fetches([running.url(2, "/a"), running.url(2, "/b")])
        wait_for(lambda: Fetch.objects.get(pk=first.pk).state == FetchState.DONE, 20, "the first fetch")
        wait_for(lambda: headline(second).kind == "slot", 20, "the slot of the second", every_s=0.02)
        until = says("it has a slot, which is ahead", second, "slot").until
        assert until is not None
        ends_at(second, until.timestamp(), 0.5)
