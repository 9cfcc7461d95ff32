"""A forecast for a site is what dispatch then does: real reservations, one simulated second after the other."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import database_now, waiting_for_nobody
from tests.integration.plans import plan_of
from tests.integration.robots.conftest import known
from tests.integration.still_clock import StillClock, stopped
from weir.ratelimit import site_settings, sites, slots
from weir.ratelimit.models import LONG_AGO, Site, Slot
from weir.ratelimit.site_names import InvalidSiteName
from weir.workers.fetches.dispatch import dispatch, horizon
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.reports.forecast import TICK_S, forecast
from weir.workers.processes.models import Process
from weir.workers.schedule import TRAVEL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITE = "site.example"
URL = f"https://{SITE}/"
NEAR = 0.1  # seconds: a slot more or less in a run
ROUGHLY = 3.0  # seconds that may pass meanwhile, where a site is reserved or held for longer


@pytest.fixture
def still_clock() -> Iterator[StillClock]:
    """Return PostgreSQL's clock, which passes no time: ticks move it."""
    with stopped() as clock:
        yield clock


def played(clock: StillClock, first_tick: float, *, until: Callable[[], object]) -> dict[int, float]:
    """Let dispatch tick until something holds, the first time in so many seconds; a fetch ends when it starts.

    Returns in how many seconds from now which fetch starts.
    """
    began, at = clock.at, clock.at + first_tick
    found: dict[int, float] = {}
    while not until():
        clock.move_to(at)
        started = Slot.objects.filter(start_time__lte=Now())
        Fetch.objects.filter(state=FetchState.RESERVED, slot_id__in=started.values("pk")).update(
            state=FetchState.DONE, status_code=200, finished_at=Now(), lease_until=None
        )
        dispatch()
        reserved = Fetch.objects.filter(state=FetchState.RESERVED)
        planned = dict(Slot.objects.filter(pk__in=reserved.values("slot_id")).values_list("pk", "start_time"))
        for pk, slot in reserved.values_list("pk", "slot_id"):
            if pk not in found:
                found[pk] = clock.offset(planned[slot or 0]) - began
        at += TICK_S
    return found


def unreadable(origin: str, *, for_s: float) -> RobotsFile:
    """Make a robots.txt unreachable for so long."""
    until = database_now() + timedelta(seconds=for_s)
    return known(origin, RobotsState.UNREACHABLE, error="the site answered 503", refresh_at=until, expires_at=until)


def waiting() -> int:
    return Fetch.objects.filter(state=FetchState.QUEUED).count()


# --- against dispatch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [False, True], ids=["at rest", "in flight"])
@pytest.mark.parametrize(
    ("rate", "queued", "options"),
    [
        ("10/s", 120, {}),
        ("100/s", 500, {}),
        ("1000/s", 3_000, {}),
        ("3/s", 50, {}),
        ("1/2s", 15, {}),
        ("1/m", 2, {}),
        ("10/s", 60, {"grace": timedelta(milliseconds=200)}),
        ("2/s", 30, {"burst": 5}),
    ],
)
def test_starts_are_forecast(
    rate: str, queued: int, options: dict[str, Any], in_flight: bool, still_clock: StillClock
) -> None:
    """The start of a new request, and the last start of the backlog, are those that dispatch gives out later."""
    site_settings.set_rate(SITE, rate, **options)
    fetches = request_fetches([URL] * queued)
    if in_flight:
        played(still_clock, 0.0, until=lambda: waiting() <= queued * 0.8)
    left, told = waiting(), forecast(SITE)
    new = request_fetch(URL)
    found = played(still_clock, TICK_S / 2, until=lambda: not waiting())
    assert (told.queued, told.ahead, told.not_due) == (left, left, 0)
    assert told.starts_in_s == pytest.approx(found[new.pk], abs=NEAR)
    assert told.clears_in_s == pytest.approx(found[fetches[-1].pk], abs=NEAR)


@pytest.mark.parametrize(("rate", "queued"), [("100/s", 400), ("5/s", 60), ("1/s", 12)])
def test_starts_are_forecast_where_fetchers_are_far_from_postgresql(
    rate: str, queued: int, still_clock: StillClock
) -> None:
    """Dispatch adds their round trips to each run, and to the time that a message takes."""
    Process.objects.create(kind="fetcher", name="far@away", pid=1, round_trip_s=0.1)
    site_settings.set_rate(SITE, rate)
    assert forecast(SITE).starts_in_s == horizon(0.1).travel_s
    fetches = request_fetches([URL] * queued)
    told = forecast(SITE)
    found = played(still_clock, TICK_S / 2, until=lambda: not waiting())
    assert told.clears_in_s == pytest.approx(found[fetches[-1].pk], abs=NEAR)


@pytest.mark.parametrize("in_flight", [False, True], ids=["at rest", "in flight"])
def test_starts_of_a_site_with_few_at_once_are_forecast(in_flight: bool, still_clock: StillClock) -> None:
    """Runs wait for each other there; what sites take is not known, so that fetches end when they start."""
    site_settings.set_rate(SITE, "5/s", max_concurrency=2)
    fetches = request_fetches([URL] * 40)
    if in_flight:
        played(still_clock, 0.0, until=lambda: waiting() <= 30)
    told = forecast(SITE)
    found = played(still_clock, TICK_S / 2, until=lambda: not waiting())
    assert told.clears_in_s == pytest.approx(found[fetches[-1].pk], abs=NEAR)


def test_a_robots_txt_that_is_not_known_goes_first(settings: Settings, still_clock: StillClock) -> None:
    """It has a run of its own, and the first request comes with the next tick."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate(SITE, "10/s")
    told = forecast(SITE, add=3)
    fetches = request_fetches([URL] * 3)
    assert not forecast(SITE).asks_robots  # it is in flight
    found = played(still_clock, 0.0, until=lambda: not waiting())
    assert (told.asks_robots, told.ahead) == (True, 0)
    assert told.starts_in_s == pytest.approx(found[fetches[0].pk], abs=NEAR)
    assert told.starts_in_s > 1
    assert told.clears_in_s == pytest.approx(found[fetches[-1].pk], abs=NEAR)


def test_a_robots_txt_that_is_known_is_not_asked_for(settings: Settings) -> None:
    """Of either scheme: which one a request will have is not said; nor is it where robots.txt does not count."""
    site_settings.set_rate("a.example", "1/s")
    assert not forecast("a.example").asks_robots
    settings.WEIR_OBEY_ROBOTS = True
    assert forecast("a.example").asks_robots
    known("http://a.example")
    assert not forecast("a.example").asks_robots
    assert forecast("a.example:8080").asks_robots


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_robots_txt_that_cannot_be_read_is_waited_for(scheme: str, settings: Settings) -> None:
    """Nothing is fetched until it is asked for again, which takes a slot; what was put off so long is in the queue."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate(SITE, "1/10s")
    idle = unreadable(f"{scheme}://{SITE}", for_s=50)
    told = forecast(SITE)
    assert told.robots_held_for_s == pytest.approx(50, abs=ROUGHLY)
    assert told.robots_error == f"{scheme}://{SITE}: the site answered 503"
    from_s = told.robots_held_for_s + TICK_S / 2 + TRAVEL
    assert (told.state, told.ahead, told.clears_in_s) == ("running", 0, 0.0)
    assert told.starts_in_s == pytest.approx(from_s + 10.25)
    request_fetch(f"{scheme}://{SITE}/", not_before=idle.expires_at)
    told = forecast(SITE)
    from_s = told.robots_held_for_s + TICK_S / 2 + TRAVEL
    assert (told.queued, told.not_due, told.ahead) == (1, 0, 1)
    assert told.clears_in_s == pytest.approx(from_s + 10.25)
    assert told.starts_in_s == pytest.approx(from_s + 2 * 10.25)
    assert forecast(SITE, add=3).clears_in_s == pytest.approx(told.clears_in_s + 3 * 10.25, abs=NEAR)


def test_a_robots_txt_that_cannot_be_read_is_no_matter_where_it_does_not_count(settings: Settings) -> None:
    """Another site's, one that is asked for again by now, and any where robots.txt is not obeyed."""
    settings.WEIR_OBEY_ROBOTS = True
    site_settings.set_rate(SITE, "1/10s", obeys_robots=False)
    site_settings.set_rate("obeys.example", "1/10s")
    site_settings.set_rate("again.example", "1/10s")
    unreadable(f"https://{SITE}", for_s=50)
    unreadable("https://again.example", for_s=-1)
    for host in (SITE, "obeys.example", "again.example"):
        told = forecast(host)
        assert (told.robots_held_for_s, told.robots_error) == (0, "")
        assert told.starts_in_s < 20


# --- what counts ----------------------------------------------------------------------------------------------------


def test_an_idle_site_starts_at_once() -> None:
    """Its next request wakes dispatch, and its message travels."""
    site_settings.set_rate(SITE, "1/h")
    told = forecast(SITE)
    assert (told.queued, told.ahead, told.starts_in_s, told.clears_in_s) == (0, 0, TRAVEL, 0.0)


def test_what_was_reserved_by_others_is_waited_for() -> None:
    """A site is one clock for all reservations."""
    site_settings.set_rate(SITE, "1/10s")
    slots.reserve(SITE)
    assert forecast(SITE).starts_in_s == pytest.approx(10.25, abs=ROUGHLY)


def test_only_what_goes_first_is_before_a_new_request() -> None:
    """Higher priority goes before it, the same priority because it is older; lower priority is backlog only."""
    site_settings.set_rate(SITE, "1/10s")
    for priority in (5, 5, 0, -1, -1, -1):
        request_fetch(URL, priority=priority)
    told = forecast(SITE)
    assert (told.queued, told.ahead) == (6, 3)
    assert told.clears_in_s - told.starts_in_s == pytest.approx(2 * 10.25, abs=NEAR)


def test_more_requests_are_counted() -> None:
    """They come after the backlog; the first of them starts where a new request would."""
    site_settings.set_rate(SITE, "1/10s")
    request_fetches([URL] * 3)
    told, more = forecast(SITE), forecast(SITE, add=100)
    assert more.starts_in_s == pytest.approx(told.starts_in_s, abs=NEAR)
    assert more.clears_in_s - told.clears_in_s == pytest.approx(100 * 10.25, abs=NEAR)


def test_what_becomes_due_before_it_could_start_is_counted() -> None:
    """A retry that waits for its back-off is part of the queue; what is due tomorrow is not, and is said."""
    site_settings.set_rate(SITE, "1/10s")
    request_fetches([URL] * 3)
    soon, tomorrow = (database_now() + timedelta(seconds=seconds) for seconds in (15, 86_400))
    request_fetch(URL, not_before=soon, priority=1)  # goes before a new request
    request_fetch(URL, not_before=soon)  # after it
    request_fetch(URL, not_before=tomorrow, priority=1)
    told = forecast(SITE)
    assert (told.queued, told.not_due, told.ahead) == (6, 1, 4)
    assert told.starts_in_s == pytest.approx(TICK_S / 2 + TRAVEL + 4 * 10.25, abs=NEAR)
    assert told.clears_in_s == pytest.approx(told.starts_in_s, abs=NEAR)


def test_nothing_is_due_yet() -> None:
    """A site all of whose fetches are due later starts a new one now."""
    site_settings.set_rate(SITE, "1/10s")
    request_fetch(URL, not_before=database_now() + timedelta(days=1))
    told = forecast(SITE)
    assert (told.queued, told.not_due, told.ahead, told.clears_in_s) == (1, 1, 0, 0.0)
    assert told.starts_in_s < 1


@pytest.mark.parametrize(
    ("hold", "state"),
    [
        (lambda: site_settings.pause(SITE, timedelta(seconds=90)), "paused"),
        (lambda: site_settings.back_off(SITE, 90), "backed off"),
    ],
)
def test_a_pause_and_a_back_off_are_waited_for(hold: Callable[[], object], state: str) -> None:
    """The first start is where they end; the backlog follows."""
    site_settings.set_rate(SITE, "1/10s")
    request_fetch(URL)
    hold()
    told = forecast(SITE)
    assert told.state == state
    assert told.held_for_s == pytest.approx(90, abs=ROUGHLY)
    assert told.clears_in_s == pytest.approx(90, abs=ROUGHLY)
    assert told.starts_in_s == pytest.approx(90 + 10.25, abs=ROUGHLY)


def test_a_pause_until_resumed_has_no_end() -> None:
    """Without a time there is no end to forecast."""
    site_settings.set_rate(SITE, "1/s")
    request_fetches([URL] * 3)
    request_fetch(URL, not_before=database_now() + timedelta(days=1))
    site_settings.pause(SITE)
    told = forecast(SITE, add=2)
    assert (told.state, told.held_for_s) == ("paused", math.inf)
    assert (told.starts_in_s, told.clears_in_s) == (math.inf, math.inf)


def test_what_a_robots_txt_asks_for_counts() -> None:
    """Its Crawl-delay raises the interval."""
    site_settings.set_rate(SITE, "1/s")
    request_fetch(URL)
    Site.objects.update(crawl_delay=timedelta(seconds=20))
    told = forecast(SITE)
    assert told.interval == timedelta(seconds=20)
    assert told.starts_in_s == pytest.approx(TICK_S / 2 + TRAVEL + 20.25, abs=NEAR)


# --- which site -----------------------------------------------------------------------------------------------------


def test_a_host_may_be_covered_by_another() -> None:
    """The site is that to which a URL of the host would go."""
    site_settings.set_rate("example.com", "1/10s", covers_subdomains=True)
    site_settings.set_rate("own.example.com", "1/h")
    request_fetches(["https://www.example.com/"] * 2)
    told = forecast("WWW.example.com.")
    assert (told.site, told.queued, told.is_new) == ("example.com", 2, False)
    assert (forecast("own.example.com").site, forecast("own.example.com").queued) == ("own.example.com", 0)


def test_a_site_that_does_not_exist_is_forecast_at_the_default_rate_and_not_created(settings: Settings) -> None:
    """Asking changes nothing."""
    settings.WEIR_DEFAULT_RATE = "1/10s"
    told = forecast("new.example", add=11)
    assert (told.site, told.is_new, told.interval, told.queued) == ("new.example", True, timedelta(seconds=10), 0)
    assert told.starts_in_s == TRAVEL
    assert told.clears_in_s == pytest.approx(TRAVEL + 10 * 10.25)
    assert not Site.objects.exists()


@pytest.mark.parametrize("rate", ["1000/s", "3/s", "1/7s", "1/h"])
def test_a_site_that_does_not_exist_is_forecast_like_one_that_was_just_created(rate: str, settings: Settings) -> None:
    """Spacing and grace are those that its row would have."""
    settings.WEIR_DEFAULT_RATE = rate
    told = forecast("new.example", add=5_000)
    sites.create_sites(["new.example"])
    created = forecast("new.example", add=5_000)
    assert (told.is_new, created.is_new) == (True, False)
    assert told == replace(created, is_new=True, now=told.now)


@pytest.mark.parametrize("add", [-1, 1_000_001])
def test_an_impossible_number_is_refused(add: int) -> None:
    with pytest.raises(ValueError, match="between 0 and 1,000,000"):
        forecast(SITE, add)


def test_what_names_no_host_is_refused() -> None:
    with pytest.raises(InvalidSiteName):
        forecast("https://site.example/")


# --- cost -----------------------------------------------------------------------------------------------------------


def test_it_waits_for_no_lock(other_connection: psycopg.Connection[Any]) -> None:
    """Reservations of the site, and of its fetches, go on meanwhile."""
    request_fetch(URL)
    other_connection.execute("SELECT id FROM weir_ratelimit_site FOR UPDATE")
    other_connection.execute("SELECT id FROM weir_fetches_fetch FOR UPDATE")
    with waiting_for_nobody():
        assert forecast(SITE).queued == 1


def test_it_does_not_wait_for_the_creation_of_the_site(other_connection: psycopg.Connection[Any]) -> None:
    """A web transaction that enqueues the first URL of a site may be open for long."""
    other_connection.execute(
        "INSERT INTO weir_ratelimit_site (name, interval, burst, has_backlog, covers_subdomains)"
        " VALUES ('new.example', '1 s', 1, false, false)"
    )
    with waiting_for_nobody():
        assert forecast("new.example").is_new


def test_it_looks_at_the_site_alone() -> None:
    """However many fetches there are elsewhere, those of the site are found by index."""
    site_settings.set_rate(SITE, "1/s", max_concurrency=2)
    request_fetches([f"https://{number % 50}.example/{number}" for number in range(5_000)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE weir_fetches_fetch, weir_ratelimit_site")
    parameters: dict[str, object] = {
        "site": Site.objects.get(name=SITE).pk,
        "name": SITE,
        "interval": timedelta(seconds=1),
        "written_rate": "1/s",
        "long_ago": LONG_AGO,
        "starts_within": 0.0,
        "clears_within": 0.0,
        "obey": True,
        "origins": [f"https://{SITE}"],
        "robots_urls": [f"https://{SITE}/robots.txt"],
    }
    nodes = plan_of("weir.workers.fetches", "forecast", parameters)
    looks = [node for node in nodes if node.get("Relation Name") == "weir_fetches_fetch"]
    assert len(looks) >= 3
    assert all("Index" in node["Node Type"] or node["Node Type"] == "Bitmap Heap Scan" for node in looks)


@pytest.mark.parametrize("rate", ["5/s", "1/10s"])
def test_a_supposed_rate_is_forecast_as_if_it_were_set(rate: str) -> None:
    """What if: nothing is changed, and what is said is what would be said after the change."""
    site_settings.set_rate(SITE, "1/s")
    request_fetches([f"{URL}{n}" for n in range(50)])
    supposed = forecast(SITE, 10, rate)
    assert Site.objects.get(name=SITE).rate == "1/s"
    assert supposed.is_supposed
    site_settings.set_rate(SITE, rate)
    set_now = forecast(SITE, 10)
    assert supposed.rate == set_now.rate == rate
    assert supposed.clears_in_s == pytest.approx(set_now.clears_in_s, abs=NEAR)
    assert supposed.starts_in_s == pytest.approx(set_now.starts_in_s, abs=NEAR)


def test_a_supposed_rate_is_no_faster_than_the_crawl_delay() -> None:
    """robots.txt holds for whatever rate is set."""
    site_settings.set_rate(SITE, "1/10s")
    Site.objects.update(crawl_delay=timedelta(seconds=4))
    assert forecast(SITE, 10, "5/s").interval == timedelta(seconds=4)


def test_a_text_that_is_no_rate_is_refused() -> None:
    """In the words of set_rate."""
    with pytest.raises(ValueError, match="rate"):
        forecast(SITE, 0, "fast")
