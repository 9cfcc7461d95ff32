"""A request that was written out of its time, after the process was stopped, is reported; no start follows too soon."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import pytest

from demo.fakes import judge, site_log, sites
from tests.integration.conftest import Eventually
from tests.integration.fetching import reserve_all
from weir.ops.metrics.parts import work
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site
from weir.ratelimit.slots import SlotTooFar
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.wire.channel import Channel
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SLACK_S = 0.1  # how late a machine may log an arrival
Stop = Callable[[float], None]


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Return a function that stops the loop for this time, once, between the look at the clock and the write."""
    real = Channel.send
    stops: list[float] = []

    def send(channel: Channel, data: bytes) -> None:
        if stops:
            time.sleep(stops.pop())
        real(channel, data)

    monkeypatch.setattr(Channel, "send", send)
    return stops.append


@dataclass
class Told:
    """How a process is stopped, and what is then looked at."""

    stop: Stop
    log: pytest.LogCaptureFixture
    eventually: Eventually


@pytest.fixture
def told(stop: Stop, caplog: pytest.LogCaptureFixture, eventually: Eventually) -> Told:
    return Told(stop, caplog, eventually)


def site(running: sites.Sites, rate: str, grace: timedelta | None = None) -> str:
    name = f"{running.hosts[0]}:{running.port}"
    site_settings.set_rate(name, rate, grace=grace)
    return name


def counted() -> float:
    [family] = [family for family in work.families() if family.name == "weir_starts_out_of_time"]
    return family.samples[0].value


@pytest.mark.parametrize(
    ("grace_ms", "stopped_s"), [(50, 0.3), (5_000, 0.9)], ids=["after its run", "after its confirmation"]
)
def test_a_start_out_of_its_time_is_told_everywhere(
    running_sites: sites.Sites, fetcher: Fetcher, told: Told, grace_ms: int, stopped_s: float
) -> None:
    """In the site's row, in the log without the URL, on /metrics; any holder's next start is an interval later."""
    name = site(running_sites, "1/7s", timedelta(milliseconds=grace_ms))
    request_fetch(running_sites.url(0, "/ok/secret"))
    assert counted() == 0
    told.stop(stopped_s)
    fetcher.run_batch(reserve_all())
    told.eventually(lambda: Site.objects.get().starts_out_of_time, "the row")
    told.eventually(lambda: site_log.read_arrivals(running_sites.log)[0], "the request")
    [arrival] = site_log.read_arrivals(running_sites.log)[0]
    next_at = time.time() - clock.now() + slots.reserve(name).slots[0].start_at
    assert next_at - arrival.at_ns / 1e9 > 7 - SLACK_S
    fetcher.close(3.0)
    found = Site.objects.get()
    assert (found.starts_out_of_time, found.backed_off_until, found.backoff_level) == (1, None, 0)
    assert found.out_of_time_at is not None
    assert abs(found.out_of_time_at.timestamp() - arrival.at_ns / 1e9) < 1
    assert counted() == 1
    [line] = [line for line in told.log.messages if "started_out_of_time" in line]
    assert name in line
    assert "late_ms" in line
    assert "secret" not in line
    assert Fetch.objects.get().state == FetchState.DONE


def test_what_waits_in_another_run_does_not_start_close_behind(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually, stop: Stop
) -> None:
    """It goes back to the queue without an attempt: immediately in this process, whose runs do not know each other."""
    site(running_sites, "2/s", timedelta(milliseconds=300))
    slot_ids = []
    for number in range(2):
        request_fetch(running_sites.url(0, f"/ok/{number}"))
        slot_ids.append(reserve_all())
    second = threading.Thread(target=fetcher.run_batch, args=(slot_ids[1],))
    second.start()
    stop(0.85)  # by then the other slot has come
    fetcher.run_batch(slot_ids[0])
    second.join(10)
    eventually(lambda: Fetch.objects.filter(state=FetchState.QUEUED, attempts=0).count() == 1, "the second fetch")
    assert Site.objects.get().starts_out_of_time == 1
    fetcher.run_batch(reserve_all())
    eventually(lambda: Fetch.objects.filter(state=FetchState.DONE).count() == 2, "both results")
    arrivals = judge.times_by_host(site_log.read_arrivals(running_sites.log)[0])
    assert min(later - earlier for [times] in [arrivals.values()] for earlier, later in pairwise(times)) > 4.9e8


def test_what_another_process_has_reserved_behind_it_is_recalled(
    running_sites: sites.Sites, fetcher: Fetcher, eventually: Eventually, stop: Stop
) -> None:
    """The other process learns of it as of any recall, and reserves again."""
    name = site(running_sites, "1/3s")
    request_fetch(running_sites.url(0, "/ok/0"))
    slot_ids = reserve_all()
    with pytest.raises(SlotTooFar):
        slots.reserve(name, max_wait=1.0)
    other = slots.reserve(name)
    stop(0.5)
    fetcher.run_batch(slot_ids)
    eventually(lambda: not slots.confirm(other), "the recall")
