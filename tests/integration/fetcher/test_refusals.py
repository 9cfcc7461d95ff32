"""Sites that ask to be left alone, in all the forms in which they do: when the next request comes."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db.models import Q
from pytest_django import Settings
from structlog.testing import capture_logs

from tests.answering import answering
from tests.integration.conftest import Eventually
from tests.integration.fetching import fetch_until, fetched, reserve_all
from tests.waiting import in_time
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.reports.why import why

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

ASKED_S = 2  # how long each site asks to be left alone
Headers = Mapping[str, str]


def at(form: Callable[[datetime], str]) -> Callable[[datetime], str]:
    """Return a function that states the moment of the end, in this form."""
    return lambda now: form(now.replace(microsecond=0) + timedelta(seconds=ASKED_S))


# The first answer of a site: its status, and the headers that state when it may be asked again.
FORMS: dict[str, tuple[int, dict[str, str | Callable[[datetime], str]]]] = {
    "seconds": (429, {"Retry-After": "2"}),
    "a decimal": (503, {"Retry-After": "1.5"}),
    "a date": (429, {"Retry-After": at(lambda end: format_datetime(end, usegmt=True))}),
    "ISO 8601": (429, {"Retry-After": at(lambda end: end.isoformat())}),
    "since 1970": (429, {"Retry-After": at(lambda end: f"{end.timestamp():.0f}")}),
    "403": (403, {"Retry-After": "2"}),
    "529": (529, {"Retry-After": "2"}),
    "RateLimit": (200, {"RateLimit": '"default";r=0;t=2'}),
    "RateLimit of a redirect": (301, {"RateLimit": "limit=9, remaining=0, reset=2", "Location": "/later"}),
    "X-RateLimit": (200, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": at(lambda end: f"{end.timestamp():.0f}")}),
    "a refusal by its quota": (429, {"X-RateLimit-Reset": "2"}),
}


class FakeSite:
    """A site whose first answer is one of these; then it answers pages. It records when it was asked and answered."""

    def __init__(self, address: str, status: int, headers: Mapping[str, str | Callable[[datetime], str]]) -> None:
        self.asked: defaultdict[str, list[float]] = defaultdict(list)  # by path
        self.answered_at = 0.0  # the first time
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path].append(time.monotonic())
                is_first = sum(map(len, site.asked.values())) == 1
                self.send_response(status if is_first else 200)
                now = datetime.now(UTC)
                for name, value in headers.items() if is_first else ():
                    self.send_header(name, value if isinstance(value, str) else value(now))
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"page")
                site.answered_at = site.answered_at or time.monotonic()

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.name = f"{address}:{self.server.server_port}"

    def url(self, path: str) -> str:
        return f"http://{self.name}{path}"

    def next_after_s(self) -> float:
        """Return how long after its first answer it was asked again; infinite if it was not."""
        later = [moment for moments in self.asked.values() for moment in moments if moment > self.answered_at]
        return min(later, default=float("inf")) - self.answered_at


@pytest.fixture
def serving() -> Iterator[Callable[[int, Mapping[str, str | Callable[[datetime], str]]], FakeSite]]:
    """Return a function that starts a site, at an address of its own."""
    with ExitStack() as leaving:
        numbers = iter(range(1, 250))

        def started(status: int, headers: Mapping[str, str | Callable[[datetime], str]]) -> FakeSite:
            made = FakeSite(f"127.1.251.{next(numbers)}", status, headers)
            leaving.enter_context(answering(made.server))
            return made

        yield started


Serving = Callable[..., FakeSite]


def blockers(fetch: Fetch) -> dict[str, str]:
    """Return what is in the way of the fetch, by its kind."""
    return {blocker.kind: blocker.text for blocker in why(fetch.pk).blockers}


def test_a_site_is_asked_again_when_the_time_is_over_that_it_states(serving: Serving, fetcher: Fetcher) -> None:
    """In any form, and by any answer: not before, and soon afterwards; nothing is lost by it."""
    sites = {form: serving(*first) for form, first in FORMS.items()}
    for site in sites.values():
        site_settings.set_rate(site.name, "3/s", grace=timedelta(seconds=2))
        request_fetch(site.url("/first"), priority=1)
        request_fetch(site.url("/second"))
    unfinished = Fetch.objects.unfinished()
    fetch_until(fetcher, lambda: not unfinished.exists(), "the end of all fetches")
    for form, site in sites.items():
        assert site.next_after_s() >= ASKED_S, form
        in_time(site.next_after_s() < ASKED_S + 2, f"{form}: asked again after {site.next_after_s():.1f} s")
        assert len(site.asked["/second"]) == 1, form
    assert set(Fetch.objects.values_list("state", "status_code")) == {(FetchState.DONE, 200)}
    assert Fetch.objects.filter(attempts=2).count() == sum(
        status in {403, 429, 503, 529} for status, _ in FORMS.values()
    )
    assert not Site.objects.filter(is_silent=True).exists(), "all have answered since"
    quotas = Q(refused_until__isnull=False)
    assert Site.objects.filter(quotas, backoff_level=0).count() == sum(status < 400 for status, _ in FORMS.values())
    assert not Site.objects.filter(~quotas, backoff_level=0).exists()


def test_a_status_refuses_where_the_settings_of_the_site_name_it(serving: Serving, fetcher: Fetcher) -> None:
    """It backs the site off, even without a time, and the fetch is tried again; elsewhere it is an ordinary answer."""
    named, other, not_named = serving(404, {}), serving(404, {}), serving(403, {"Retry-After": "60"})
    site_settings.set_rate(named.name, "3/s", grace=timedelta(seconds=2), refusing=[404])
    site_settings.set_rate(other.name, "3/s", grace=timedelta(seconds=2))
    site_settings.set_rate(not_named.name, "3/s", grace=timedelta(seconds=2), refusing=[])
    refused, *answered = [request_fetch(site.url("/first")) for site in (named, other, not_named)]
    for fetch in answered:
        assert fetched(fetch, fetcher).state == FetchState.DONE
    fetch_until(fetcher, lambda: Fetch.objects.get(pk=refused.pk).attempts, "the first attempt")
    refused = Fetch.objects.get(pk=refused.pk)
    assert (refused.state, refused.error) == (FetchState.QUEUED, "the site answered 404")
    fetch_until(fetcher, lambda: Site.objects.filter(backed_off_until__isnull=False).exists(), "the back-off")
    assert Site.objects.get(backed_off_until__isnull=False).name == named.name
    assert Site.objects.get(is_silent=True).name == named.name
    assert blockers(refused)["backed off"].endswith("and is backed off: it answered 404.")


def test_a_quota_that_is_used_up_stops_what_waits_and_costs_a_statement(
    serving: Serving, fetcher: Fetcher, eventually: Eventually
) -> None:
    """Fetches that wait for their slots go back without an attempt. It is logged once, as a rest, with its reason."""
    site = serving(200, {"RateLimit": "default;r=0;t=60"})
    site_settings.set_rate(site.name, "3/s", grace=timedelta(seconds=2))
    first = request_fetch(site.url("/first"), priority=1)
    waiting = request_fetches([site.url(f"/{n}") for n in range(5)])
    with capture_logs() as logged:
        fetcher.run_batch(reserve_all())
        eventually(lambda: Fetch.objects.filter(state=FetchState.DONE).exists(), "the first answer")
        eventually(lambda: Site.objects.get().backed_off_until, "the rest")
    assert fetched(first, fetcher).status_code == 200
    assert not Fetch.objects.filter(pk__in=[fetch.pk for fetch in waiting], attempts__gt=0).exists()
    [line] = [line for line in logged if line["event"].startswith("site_")]
    assert (line["event"], line["reason"]) == ("site_rests", "its quota is used up (RateLimit)")
    assert line["seconds"] == pytest.approx(60, abs=1)
    assert blockers(waiting[0])["resting"] == f"The site {site.name} rests, as its quota is used up (RateLimit)."


def test_a_redirect_is_followed_when_its_time_is_over(serving: Serving, fetcher: Fetcher) -> None:
    """Only the fetch waits, not the site."""
    site = serving(302, {"Location": "/target", "Retry-After": "2"})
    site_settings.set_rate(site.name, "3/s", grace=timedelta(seconds=2))
    redirected = request_fetch(site.url("/first"), priority=1)
    other = request_fetch(site.url("/other"))
    assert fetched(other, fetcher).state == FetchState.DONE
    waiting = Fetch.objects.get(pk=redirected.pk)
    assert (waiting.state, waiting.attempts, waiting.due_since) == (FetchState.QUEUED, 0, None)
    assert "its redirect asks to be followed in 2 s (Retry-After)" in blockers(redirected)["not due"]
    assert (ended := fetched(redirected, fetcher)).state == FetchState.DONE
    assert (ended.hop_url, ended.error) == (site.url("/target"), "")
    assert site.asked["/target"][0] - site.answered_at >= ASKED_S


def test_no_site_closes_itself_for_longer_than_the_longest_retry_after(
    serving: Serving, fetcher: Fetcher, settings: Settings
) -> None:
    """A hostile quota is cut like a Retry-After."""
    settings.WEIR_RETRY_AFTER_MAX = 1.0
    site = serving(200, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 60})
    site_settings.set_rate(site.name, "3/s", grace=timedelta(seconds=2))
    for path in ("/first", "/second"):
        assert fetched(request_fetch(site.url(path)), fetcher).state == FetchState.DONE
