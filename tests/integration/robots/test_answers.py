"""How the fetch of a robots.txt ended is noted: what may be fetched, how long that counts, and how often."""

import gzip
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.integration.conftest import Message, database_now, dispatch_message
from tests.integration.robots.conftest import (
    DAY,
    ORIGIN,
    PAGE,
    ROBOTS,
    all_due,
    answered,
    claimed,
    known,
    robots_fetches,
    stored,
)
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.jobs import Answer, Failure, Flaw, Job
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.methods import USUAL_REDIRECTS
from weir.workers.fetches.models import Fetch, FetchBody, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots import answers
from weir.workers.fetches.robots.answers import AHEAD, UNREACHABLE_FOR
from weir.workers.fetches.robots.rules import MAX_BYTES
from weir.workers.tracing import correlation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

RULES = b"User-agent: *\nDisallow: /private\n"
HOUR = timedelta(hours=1)


def asked_for(url: str = PAGE) -> Job:
    """Ask for a robots.txt, and return the job that requests it."""
    request_fetch(url)
    [job] = claimed()
    assert job.is_robots
    return job


def asked_until_it_failed(url: str = PAGE, status: int = 503) -> None:
    """Answer a robots.txt with an error as often as it is asked for."""
    answered(asked_for(url), status)
    for _ in range(2):
        all_due()
        [job] = [job for job in claimed() if job.is_robots]
        answered(job, status)


def since(file: RobotsFile) -> tuple[timedelta, timedelta]:
    """Return for how long a robots.txt counts before it is refreshed, and in all."""
    return file.refresh_at - file.fetched_at, file.expires_at - file.fetched_at


# --- what it means ------------------------------------------------------------------------------------------------


def test_rules_are_kept_for_a_day_and_refreshed_an_hour_before() -> None:
    """The text is kept as it is, with the origin's site; the fetch itself keeps no body."""
    answered(asked_for(), 200, RULES)
    file = RobotsFile.objects.get()
    assert (file.origin, file.site, file.state, file.rules) == (ORIGIN, Site.objects.get(), "rules", RULES.decode())
    assert (file.crawl_delay, file.error) == (None, "")
    assert since(file) == (DAY - timedelta(seconds=AHEAD), DAY)
    assert timedelta(0) <= database_now() - file.fetched_at < timedelta(minutes=1)
    assert [fetch.state for fetch in robots_fetches()] == [FetchState.DONE]
    assert not FetchBody.objects.exists()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_where_there_is_none_everything_is_allowed(status: int) -> None:
    """RFC 9309 (2.3.1.3): any 4xx, whatever page comes with it."""
    answered(asked_for(), status, RULES)
    file = RobotsFile.objects.get()
    assert (file.state, file.rules) == (RobotsState.ALLOWED, "")
    assert since(file) == (DAY - timedelta(seconds=AHEAD), DAY)


def test_the_encoding_of_a_page_that_says_there_is_none_does_not_matter() -> None:
    """A page for people, in an encoding that Weir did not ask for, does not make the site unreachable."""
    answered(asked_for(), 404, b"\x0b\x02\x80", (b"Content-Encoding", b"br"))
    assert RobotsFile.objects.get().state == RobotsState.ALLOWED


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_site_in_trouble_is_asked_again_and_then_left_in_peace_for_a_while(status: int) -> None:
    """RFC 9309 (2.3.1.4): nothing may be fetched; it says why, and counts for a minute only."""
    asked_until_it_failed(status=status)
    file = RobotsFile.objects.get()
    assert file.state == RobotsState.UNREACHABLE
    assert file.error == f"the site answered {status} (attempt 3 of 3)"
    assert since(file) == (timedelta(seconds=UNREACHABLE_FOR),) * 2


@pytest.mark.parametrize(("goes_on", "most"), [("?{}", 1 + USUAL_REDIRECTS), ("", 1)], ids=["ever on", "to itself"])
def test_a_robots_txt_that_redirects_for_ever_means_that_there_is_none(goes_on: str, most: int) -> None:
    """RFC 9309 (2.3.1.2): five redirects in a row are followed at least; it is not asked for again for that."""
    jobs, asked = [asked_for()], 0
    while jobs:
        asked += 1
        answered(jobs[0], 302, b"", (b"Location", (ROBOTS + goes_on.format(asked)).encode()))
        all_due()
        jobs = [job for job in claimed() if job.is_robots]
    assert asked == most
    assert RobotsFile.objects.get().state == RobotsState.ALLOWED


def test_one_that_is_cut_is_asked_for_again_and_then_unreachable() -> None:
    """A rule behind the cut would be lost for a day."""
    job = asked_for()
    for _ in range(3):
        assert not RobotsFile.objects.exists()
        cut = Answer(job=job, status_code=200, headers=(), body=RULES, lateness_ms=1.0, elapsed_ms=2.0)
        stored(replace(cut, flaw=Flaw.CUT, reason="the connection was reset"))
        all_due()
        job = next((job for job in claimed() if job.is_robots), job)
    file = RobotsFile.objects.get()
    assert (file.state, file.error) == (RobotsState.UNREACHABLE, "the connection was reset (attempt 3 of 3)")


def test_what_cannot_be_fetched_at_all_is_unreachable() -> None:
    """RFC 9309 (2.3.1.4): network errors close the site; the reason is kept."""
    stored(Failure(job=asked_for(), error="the connection is refused", permanent=True, slot_used=True))
    file = RobotsFile.objects.get()
    assert (file.state, file.error) == (RobotsState.UNREACHABLE, "the connection is refused")


def test_what_cannot_be_parsed_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that stumbles over what a site wrote ends nothing but this reading."""
    monkeypatch.setattr(answers, "group_for", lambda *_arguments: 1 / 0)
    with correlation.bound("request-7"):
        job = asked_for()
    with capture_logs() as logs:
        answered(job, 200, RULES)
    file = RobotsFile.objects.get()
    assert (file.state, file.error) == (RobotsState.UNREACHABLE, "it cannot be parsed: ZeroDivisionError")
    [line] = [line for line in logs if line["event"] == "robots_not_parsed"]
    assert (line["fetch"], line["correlation_id"]) == (job.fetch_id, "request-7")


def test_one_whose_fetchers_die_is_unreachable() -> None:
    """Also where sweep ends it: no fetch waits for ever for a robots.txt that a killed fetcher was asking for."""
    asked_for()
    Fetch.objects.filter(is_robots=True).update(attempts=2, in_hand=True, lease_until=database_now() - HOUR)
    assert sweep() == 1
    file = RobotsFile.objects.get()
    assert file.state == RobotsState.UNREACHABLE
    assert "its fetcher died" in file.error


@pytest.mark.parametrize("compressed", [False, True])
def test_of_one_that_is_too_large_the_beginning_counts(compressed: bool) -> None:
    """It is cut off, not refused, compressed or not."""
    body = RULES + b"#" * MAX_BYTES + b"\nUser-agent: *\nDisallow: /late\n"
    headers = [(b"Content-Encoding", b"gzip")] if compressed else []
    answered(asked_for(), 200, gzip.compress(body) if compressed else body, *headers)
    file = RobotsFile.objects.get()
    assert (file.state, file.rules) == (RobotsState.RULES, RULES.decode())


def test_redirects_are_followed_for_the_origin_that_was_asked() -> None:
    """RFC 9309 (2.3.1.2): wherever the file was found, it speaks for the origin that was asked, at its site."""
    answered(asked_for("http://site.example/page"), 301, b"", (b"Location", b"https://www.site.example/r.txt"))
    all_due()
    [job] = [job for job in claimed() if job.is_robots]
    assert (job.url, job.redirects) == ("https://www.site.example/r.txt", 1)
    answered(job, 200, RULES)
    file = RobotsFile.objects.get()
    assert (file.origin, file.site.name, file.rules) == ("http://site.example", "site.example", RULES.decode())


def test_dispatch_hears_of_it(messages: list[Message]) -> None:
    """What waited for it goes on at once."""
    job = asked_for()
    messages.clear()
    answered(job, 404)
    assert dispatch_message("site.example") in messages


def test_a_users_own_fetch_of_a_robots_txt_is_a_fetch_like_any_other() -> None:
    """It has a body, and decides nothing."""
    known()
    fetch = request_fetch(ROBOTS)
    [job] = claimed()
    assert not job.is_robots
    answered(job, 200, b"User-agent: *\nDisallow: /\n")
    assert bytes(FetchBody.objects.get(fetch=fetch).content) == b"User-agent: *\nDisallow: /\n"
    assert RobotsFile.objects.get().state == RobotsState.ALLOWED


# --- for how long -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "refreshed_after", "expires_after"),
    [("1/h", 23 * HOUR, DAY), ("1/8h", 16 * HOUR, DAY), ("1/day", DAY, 2 * DAY)],
)
def test_at_a_slow_site_it_lasts_for_two_slots(rate: str, refreshed_after: timedelta, expires_after: timedelta) -> None:
    """A site that starts once a day would otherwise ask for nothing but robots.txt."""
    site_settings.set_rate("site.example", rate)
    answered(asked_for(), 200, RULES)
    assert since(RobotsFile.objects.get()) == (refreshed_after, expires_after)


def test_at_a_slow_site_a_failure_lasts_for_two_slots() -> None:
    """Those that wait for it come by while it still counts, and have their attempts counted."""
    site_settings.set_rate("site.example", "1/h")
    asked_until_it_failed()
    assert since(RobotsFile.objects.get()) == (2 * HOUR, 2 * HOUR)


def test_rules_that_still_count_outlive_a_failure_to_refresh_them() -> None:
    """They are used until they expire, and asked for again in a minute."""
    now = database_now()
    known(rules=RULES.decode(), refresh_at=now - HOUR, expires_at=now + HOUR)
    asked_until_it_failed()
    file = RobotsFile.objects.get()
    assert (file.state, file.rules, file.expires_at) == (RobotsState.RULES, RULES.decode(), now + HOUR)
    assert timedelta(seconds=30) < file.refresh_at - database_now() <= timedelta(seconds=UNREACHABLE_FOR)


def test_rules_that_do_not_count_any_more_do_not_outlive_it() -> None:
    """RFC 9309 has no crawler use them for longer than a day."""
    now = database_now()
    known(rules=RULES.decode(), refresh_at=now - DAY, expires_at=now - HOUR)
    asked_until_it_failed()
    assert (RobotsFile.objects.get().state, RobotsFile.objects.get().rules) == (RobotsState.UNREACHABLE, "")


def test_new_rules_take_the_place_of_the_old() -> None:
    """All of what was known is replaced."""
    now = database_now()
    known(state=RobotsState.UNREACHABLE, error="x", fetched_at=now - DAY, refresh_at=now - HOUR, expires_at=now - HOUR)
    answered(asked_for(), 200, RULES)
    file = RobotsFile.objects.get()
    assert (file.state, file.error, file.rules) == (RobotsState.RULES, "", RULES.decode())
    assert since(file) == (23 * HOUR, DAY)


# --- Crawl-delay --------------------------------------------------------------------------------------------------


def delaying(seconds: float) -> bytes:
    return f"User-agent: *\nCrawl-delay: {seconds:g}\n".encode()


def crawl_delay() -> timedelta | None:
    return Site.objects.get(name="site.example").crawl_delay


def test_a_crawl_delay_becomes_the_site_s() -> None:
    """It raises the interval; the rate that was set stays on record."""
    site_settings.set_rate("site.example", "1/s")
    answered(asked_for(), 200, delaying(7.5))
    site = Site.objects.get()
    assert (RobotsFile.objects.get().crawl_delay, site.crawl_delay) == (timedelta(seconds=7.5),) * 2
    assert (site.interval, site.effective_interval) == (timedelta(seconds=1), timedelta(seconds=7.5))


def test_it_never_makes_a_site_faster() -> None:
    """The rate that was set still holds."""
    site_settings.set_rate("site.example", "1/10s")
    answered(asked_for(), 200, delaying(0.000_000_001))
    assert Site.objects.get().effective_interval == timedelta(seconds=10)


def test_without_one_the_site_has_its_own_interval_again() -> None:
    """What a site asks for no longer is forgotten with the next look."""
    site_settings.set_rate("site.example", "1/s")
    now = database_now()
    known(rules=delaying(60).decode(), crawl_delay=timedelta(seconds=60), refresh_at=now - HOUR, expires_at=now + HOUR)
    site_settings.set_crawl_delay(Site.objects.get().pk, timedelta(seconds=60))
    answered(asked_for(), 200, RULES)
    assert crawl_delay() is None


def test_the_longest_of_a_site_s_origins_counts() -> None:
    """Scheme and hosts share the site, and so they share its slowness; what expired has no say."""
    now = database_now()
    known("http://site.example", rules="", crawl_delay=timedelta(seconds=20))
    known(
        "ftp://site.example", rules="", crawl_delay=timedelta(seconds=90), refresh_at=now - HOUR, expires_at=now - HOUR
    )
    answered(asked_for(), 200, delaying(5))
    assert crawl_delay() == timedelta(seconds=20)


def test_a_site_that_cannot_be_reached_is_not_asked_any_faster() -> None:
    """The last known Crawl-delay stands until there is another."""
    site_settings.set_rate("site.example", "1/s")
    now = database_now()
    known(rules="", crawl_delay=timedelta(seconds=30), refresh_at=now - HOUR, expires_at=now - HOUR)
    asked_until_it_failed()
    assert crawl_delay() == timedelta(seconds=30)


def test_a_site_that_obeys_no_robots_txt_has_no_crawl_delay() -> None:
    """Also where its robots.txt was on its way already when that was decided."""
    job = asked_for()
    site_settings.set_rate("site.example", "1/s", obeys_robots=False)
    answered(job, 200, delaying(60))
    assert crawl_delay() is None
