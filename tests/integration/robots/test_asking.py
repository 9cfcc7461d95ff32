"""A robots.txt is asked for when a fetch of its origin needs it: one at a time, and before everything else."""

from datetime import timedelta

import pytest
from django.db import transaction
from pytest_django import Settings

from tests.integration.conftest import InThreads, Message, database_now, waiting_for_nobody
from tests.integration.robots.conftest import DAY, ORIGIN, PAGE, ROBOTS, answered, claimed, known, robots_fetches
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers import task_names
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots import files as robots_files
from weir.workers.fetches.robots.files import ask, ask_again

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


# --- what asks ----------------------------------------------------------------------------------------------------


def test_the_first_fetch_of_an_origin_has_its_robots_txt_asked_for() -> None:
    """It is a fetch like any other, at the same site, with the highest priority and few attempts."""
    request_fetch(PAGE)
    [robots] = robots_fetches()
    assert (robots.url, robots.hop_url, robots.state) == (ROBOTS, ROBOTS, FetchState.QUEUED)
    assert robots.site == Site.objects.get()
    assert (robots.priority, robots.max_attempts, robots.on_done) == (32_767, 3, "")
    assert Site.objects.get().has_backlog


def test_each_origin_has_its_own() -> None:
    """Scheme and port tell origins apart, also within one site; a thousand pages of one ask once."""
    pages = [f"{ORIGIN}/{number}" for number in range(1_000)]
    request_fetches([*pages, "http://site.example/", "https://site.example:8443/", "https://site.example:443/"])
    assert {(f.url, f.site.name if f.site else "") for f in robots_fetches()} == {
        (ROBOTS, "site.example"),
        ("http://site.example/robots.txt", "site.example"),
        ("https://site.example:8443/robots.txt", "site.example:8443"),
    }


def test_it_is_asked_for_at_the_site_that_covers_the_host() -> None:
    """Where a site covers its subdomains, their robots.txt files take slots of that site."""
    site_settings.set_rate("example", "1/s", covers_subdomains=True)
    request_fetch(PAGE)
    assert [fetch.site for fetch in robots_fetches()] == [Site.objects.get(name="example")]


def test_what_is_being_asked_for_is_not_asked_for_again(in_threads: InThreads) -> None:
    """However many ask at once, in whatever order: one fetch an origin, until that has ended."""
    origins = [f"https://{number}.example" for number in range(20)]
    in_threads(4, lambda number: request_fetches([f"{o}/" for o in (origins if number % 2 else origins[::-1])]))
    assert sorted(fetch.url for fetch in robots_fetches()) == sorted(f"{origin}/robots.txt" for origin in origins)
    [first, *_] = robots_fetches()
    assert cancel(first.pk)
    request_fetch(first.url.removesuffix("robots.txt"))
    assert Fetch.objects.filter(url=first.url).count() == 2


@pytest.mark.parametrize("state", [RobotsState.ALLOWED, RobotsState.RULES])
def test_what_is_known_is_not_asked_for(state: RobotsState) -> None:
    """For a day one answer is enough."""
    known(state=state)
    request_fetch(PAGE)
    assert robots_fetches() == []


def test_what_cannot_be_reached_is_left_in_peace_for_a_while() -> None:
    """Until it expires nothing is asked."""
    known(state=RobotsState.UNREACHABLE, error="the site answered 503")
    request_fetch(PAGE)
    assert robots_fetches() == []


@pytest.mark.parametrize("expired", [False, True])
def test_what_is_old_is_asked_for_again(expired: bool) -> None:
    """It is refreshed before it expires, so that no fetch has to wait."""
    now = database_now()
    known(refresh_at=now - timedelta(seconds=2), expires_at=now + timedelta(seconds=-1 if expired else 600))
    request_fetch(PAGE)
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]


def test_nothing_is_asked_where_robots_txt_is_not_obeyed(settings: Settings) -> None:
    """With the setting off no request is made but those that were asked for."""
    settings.WEIR_OBEY_ROBOTS = False
    request_fetch(PAGE)
    assert robots_fetches() == []


def test_a_site_may_say_otherwise_than_the_setting(settings: Settings) -> None:
    """An API needs no robots.txt, and a crawl that ignores them may still respect one site's."""
    site_settings.set_rate("site.example", "1/s", obeys_robots=False)
    request_fetch(PAGE)
    assert robots_fetches() == []
    settings.WEIR_OBEY_ROBOTS = False
    site_settings.set_rate("site.example", "1/s", obeys_robots=True)
    request_fetch(PAGE)
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]


def test_what_is_no_url_has_no_robots_txt() -> None:
    """A failure has no origin."""
    request_fetches(["nonsense", ""])
    assert robots_fetches() == []


def test_nothing_is_asked_for_what_is_rolled_back() -> None:
    """The robots.txt is queued after the commit, by a statement of its own."""
    with transaction.atomic():
        request_fetch(PAGE)
        transaction.set_rollback(True)
    assert robots_fetches() == []


def test_web_transactions_do_not_wait_for_each_other() -> None:
    """A transaction that requests pages of an origin locks nothing that another such transaction needs."""
    with transaction.atomic():
        request_fetch(PAGE)
        assert robots_fetches() == []
        with waiting_for_nobody():
            request_fetch(PAGE)
    assert len(robots_fetches()) == 1


def test_asking_returns_the_sites_to_wake() -> None:
    """Those for which something was queued; what is queued or in flight already is no error, and not returned."""
    site_id = Site.objects.create(name="site.example", interval=timedelta(seconds=1)).pk
    assert ask({ORIGIN: site_id, f"{ORIGIN}:8443": site_id}) == [site_id] * 2
    assert ask({ORIGIN: site_id, "http://site.example": site_id}) == [site_id]
    assert ask({ORIGIN: site_id}) == []


def test_asking_for_nothing_needs_no_database(django_assert_num_queries: pytest.FixtureRequest) -> None:
    """Where no fetch has an origin there is no query."""
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert ask({}) == []


# --- how far ahead --------------------------------------------------------------------------------------------------


def test_a_site_of_many_origins_asks_for_an_hour_s_worth_ahead() -> None:
    """The rest is asked for when it is needed: the first page is not fetched days later."""
    site_settings.set_rate("example", "1/10min", covers_subdomains=True)
    request_fetches(f"https://{number}.example/" for number in range(10))
    assert len(robots_fetches()) == 6
    request_fetches(f"https://{number}.example/" for number in range(10, 20))
    assert len(robots_fetches()) == 6
    assert ask({"https://19.example": Site.objects.get().pk}, is_needed_now=True)
    assert len(robots_fetches()) == 7


def test_a_site_slower_than_that_asks_for_one() -> None:
    """Its first fetch needs it."""
    site_settings.set_rate("site.example", "1/day")
    request_fetch(PAGE)
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]


def test_at_a_fast_site_there_is_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting how many are queued must not take long."""
    monkeypatch.setattr(robots_files, "MOST_AHEAD", 5)
    site_settings.set_rate("example", "1000/s", covers_subdomains=True)
    request_fetches(f"https://{number}.example/" for number in range(10))
    assert len(robots_fetches()) == 5


def test_where_a_fetch_has_waited_for_an_hour_nothing_is_asked_for_ahead() -> None:
    """However many new origins there are all the time: the old fetches get their turn."""
    site_settings.set_rate("example", "1/s", covers_subdomains=True)
    known("https://old.example")
    request_fetch("https://old.example/")
    Fetch.objects.update(not_before=database_now() - timedelta(minutes=59))
    request_fetch("https://1.example/")
    Fetch.objects.filter(is_robots=False).update(not_before=database_now() - timedelta(minutes=61))
    request_fetch("https://2.example/")
    assert [fetch.url for fetch in robots_fetches()] == ["https://1.example/robots.txt"]


def test_what_an_operator_wants_to_know_is_asked_for_all_the_same() -> None:
    """Also at a site where fetches wait."""
    known()
    request_fetch(PAGE)
    Fetch.objects.update(not_before=database_now() - DAY)
    assert ask_again([ORIGIN]) == 1
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]


# --- before everything else ---------------------------------------------------------------------------------------


def sent(messages: list[Message]) -> list[list[int]]:
    return [arguments[0] for task, arguments in messages if task == task_names.FETCH_BATCH]


def test_a_robots_txt_gets_slots_alone(messages: list[Message]) -> None:
    """The fetches of its site wait for what it says; those of other sites do not."""
    site_settings.set_rate("site.example", "10/s")
    known("https://other.example")
    others = request_fetches(["https://other.example/"] * 3)
    pages = request_fetches([PAGE] * 5, priority=9)
    [robots] = robots_fetches()
    messages.clear()
    assert dispatch() == 4
    assert set(Fetch.objects.filter(state=FetchState.RESERVED)) == {robots, *others}
    slot = Slot.objects.get(site__name="site.example")
    site = Site.objects.get(name="site.example")
    assert slot.run_size == 1
    assert slot.use_until == slot.start_time + site.effective_grace
    assert site.next_start == slot.use_until + site.interval
    assert site.has_backlog
    assert set(Fetch.objects.filter(state=FetchState.QUEUED)) == set(pages)


def test_the_robots_txt_files_of_a_site_are_one_run() -> None:
    """A site of many hosts learns of all of them at its own rate, before anything else."""
    site_settings.set_rate("example", "10/s", covers_subdomains=True)
    request_fetches([f"https://{number}.example/" for number in range(7)], priority=32_766)
    assert dispatch() == 7
    assert {fetch.is_robots for fetch in Fetch.objects.filter(state=FetchState.RESERVED)} == {True}
    run = list(Slot.objects.order_by("start_time"))
    site = Site.objects.get()
    assert {slot.run_size for slot in run} == {7}
    assert [slot.start_time - run[0].start_time for slot in run] == [place * site.spacing for place in range(7)]
    assert site.next_start == run[-1].start_time + site.effective_grace + site.interval


def test_one_that_waits_for_its_back_off_holds_up_no_fetch() -> None:
    """A robots.txt that is not due does not keep slots from others."""
    request_fetch(PAGE)
    Fetch.objects.filter(is_robots=True).update(not_before=database_now() + DAY)
    dispatch()
    assert [fetch.url for fetch in Fetch.objects.filter(state=FetchState.RESERVED)] == [PAGE]


def test_redirects_have_the_robots_txt_of_their_target_asked_for() -> None:
    """When the next hop is claimed, what its origin says is known, or on its way."""
    known()
    request_fetch(PAGE)
    [job] = claimed()
    answered(job, 301, b"", (b"Location", b"https://www.site.example/page"))
    assert [fetch.url for fetch in robots_fetches()] == ["https://www.site.example/robots.txt"]


def test_where_a_robots_txt_redirects_to_nothing_else_is_asked_for() -> None:
    """It is followed as it is: what the robots.txt of the target's origin says about it does not matter."""
    request_fetch(PAGE)
    [job] = claimed()
    assert job.is_robots
    answered(job, 301, b"", (b"Location", b"https://www.site.example/robots.txt"))
    assert [fetch.url for fetch in robots_fetches()] == [ROBOTS]
    assert not RobotsFile.objects.exists()
