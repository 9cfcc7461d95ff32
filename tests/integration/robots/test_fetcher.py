"""robots.txt through the real fetcher, judged by what a small site of the test was asked for."""

import gzip
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings
from structlog.testing import capture_logs

from tests.answering import answering
from tests.integration.conftest import Eventually
from tests.integration.fetching import fetched, reserve_all
from tests.integration.robots.conftest import known
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchBody, FetchState, RobotsFile, RobotsState
from weir.workers.fetches.robots import gate as robots_gate
from weir.workers.fetches.robots.rules import MAX_BYTES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

Answer = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]


class SmallSite(ThreadingHTTPServer):
    """A site with the answers that a test gives it, which notes what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.1.250.251", 0), _Handler)
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.left_early = 0  # clients that did not wait for the whole answer

    @property
    def origin(self) -> str:
        """Return what its URLs begin with."""
        return f"http://{self.site}"

    @property
    def site(self) -> str:
        """Return the name of its site."""
        return f"127.1.250.251:{self.server_port}"

    def handle_error(self, *_arguments: Any) -> None:
        """Note that a client has read enough."""
        self.left_early += 1


class _Handler(BaseHTTPRequestHandler):
    server: SmallSite

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, body, *more = self.server.answers.get(self.path, (200, b"page"))
        headers = more[0] if more else {}
        if "ETag" in headers and headers["ETag"] == self.headers["If-None-Match"]:
            status, body = 304, b""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


@pytest.fixture
def site() -> Iterator[SmallSite]:
    """Return a site that answers, at a site that is fast."""
    with answering(SmallSite()) as running:
        site_settings.set_rate(running.site, "50/s")
        yield running


@pytest.fixture(autouse=True)
def _wait_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_gate, "WAIT", 0.05)


def test_the_rules_are_fetched_first_and_obeyed(site: SmallSite, fetcher: Fetcher) -> None:
    """One robots.txt, then what it allows; what it disallows is never asked for."""
    site.answers["/robots.txt"] = (200, b"User-agent: weir\nDisallow: /private\nCrawl-delay: 0.2\n")
    pages = request_fetches(f"{site.origin}/{path}" for path in ("a", "private/b", "c"))
    assert [fetched(page, fetcher).state for page in pages] == [FetchState.DONE, FetchState.FAILED, FetchState.DONE]
    assert site.asked == ["/robots.txt", "/a", "/c"]
    failed = Fetch.objects.get(state=FetchState.FAILED)
    assert (failed.error, failed.attempts) == (f"robots.txt of {site.origin} disallows it", 0)
    assert Site.objects.get().effective_interval == timedelta(seconds=0.2)
    assert FetchBody.objects.count() == 2


def test_a_site_without_one_is_fetched_from(site: SmallSite, fetcher: Fetcher) -> None:
    """404 is leave for everything."""
    site.answers["/robots.txt"] = (404, b"Disallow: /")
    assert fetched(request_fetch(f"{site.origin}/page"), fetcher).state == FetchState.DONE
    assert site.asked == ["/robots.txt", "/page"]


def test_a_site_whose_robots_txt_fails_is_not_fetched_from(site: SmallSite, fetcher: Fetcher) -> None:
    """500 is asked again, and then nothing is asked for; the fetch says why it failed."""
    site.answers["/robots.txt"] = (500, b"")
    fetch = request_fetch(f"{site.origin}/page", max_attempts=1)
    ended = fetched(fetch, fetcher)
    assert (ended.state, ended.attempts) == (FetchState.FAILED, 1)
    assert "cannot be read: the site answered 500 (attempt 3 of 3)" in ended.error
    assert site.asked == ["/robots.txt"] * 3


def test_redirects_are_followed_to_the_rules(site: SmallSite, fetcher: Fetcher) -> None:
    """They are those of the origin that was asked for its robots.txt, wherever they were found."""
    site.answers["/robots.txt"] = (301, b"", {"Location": "/rules/1"})
    site.answers["/rules/1"] = (302, b"", {"Location": "/rules/2"})
    site.answers["/rules/2"] = (200, b"User-agent: *\nDisallow: /page\n")
    assert fetched(request_fetch(f"{site.origin}/page"), fetcher).state == FetchState.FAILED
    assert site.asked == ["/robots.txt", "/rules/1", "/rules/2"]


def test_a_robots_txt_that_leads_nowhere_closes_no_site(site: SmallSite, fetcher: Fetcher) -> None:
    """It redirects to itself: that is not followed, and the page is fetched."""
    site.answers["/robots.txt"] = (302, b"", {"Location": "/robots.txt"})
    assert fetched(request_fetch(f"{site.origin}/page"), fetcher).state == FetchState.DONE
    # Between its end and the noting of what it says, it may be asked for once more.
    assert (site.asked.pop(), set(site.asked), len(site.asked) <= 2) == ("/page", {"/robots.txt"}, True)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("large", [MAX_BYTES + 1, 60 * MAX_BYTES])
def test_of_a_large_one_the_beginning_is_read(site: SmallSite, fetcher: Fetcher, compressed: bool, large: int) -> None:
    """However large it is, and compressed or not, it is cut off at 512 KiB; what the beginning says counts."""
    body = b"User-agent: *\nDisallow: /page\n" + b"#" * large + b"\nDisallow: /late\n"
    site.answers["/robots.txt"] = (
        (200, gzip.compress(body), {"Content-Encoding": "gzip"}) if compressed else (200, body)
    )
    page, late = request_fetches([f"{site.origin}/page", f"{site.origin}/late"])
    assert fetched(page, fetcher).state == FetchState.FAILED
    assert fetched(late, fetcher).state == FetchState.DONE
    assert RobotsFile.objects.get().rules == "User-agent: *\nDisallow: /page\n"
    # Between its end and the noting of what it says, it may be asked for once more.
    assert bool(site.left_early) == (large > 50 * MAX_BYTES and not compressed), "what is not used is not read"


def test_a_successor_is_let_through_or_not_as_well(site: SmallSite, fetcher: Fetcher, eventually: Eventually) -> None:
    """A slot that is passed on to what robots.txt disallows is not used."""
    site_settings.set_rate(site.site, "1/s")
    known(site.origin, rules="User-agent: *\nDisallow: /private\n")
    first, cancelled = request_fetches([f"{site.origin}/first", f"{site.origin}/cancelled"])
    slot_ids = reserve_all()
    successor = request_fetch(f"{site.origin}/private")
    thread = threading.Thread(target=fetcher.run_batch, args=(slot_ids,))
    thread.start()
    eventually(lambda: site.asked, "the first request")
    assert cancel(cancelled.pk)
    eventually(lambda: Fetch.objects.get(pk=successor.pk).state == FetchState.FAILED, "the successor's end")
    thread.join(5)
    fetcher.close(1.0)
    assert site.asked == ["/first"]
    assert Fetch.objects.get(pk=first.pk).state == FetchState.DONE
    assert Fetch.objects.get(pk=successor.pk).error == f"robots.txt of {site.origin} disallows it"


def test_a_fetcher_that_only_gave_back_holds_nothing(site: SmallSite, fetcher: Fetcher, eventually: Eventually) -> None:
    """What the gate turns away is no longer held once it is stored, and a message of nothing else ends at once."""
    known(site.origin, rules="User-agent: *\nDisallow: /\n")
    request_fetches([f"{site.origin}/{number}" for number in range(5)])
    began_at = time.monotonic()
    fetcher.run_batch(reserve_all())
    eventually(lambda: fetcher._held == 0, "everything to be stored")
    assert time.monotonic() - began_at < 5
    assert set(Fetch.objects.values_list("state", flat=True)) == {FetchState.FAILED}


def test_with_the_setting_off_nothing_is_asked(site: SmallSite, fetcher: Fetcher, settings: Settings) -> None:
    """The site sees the pages that were wanted, and nothing else."""
    settings.WEIR_OBEY_ROBOTS = False
    assert fetched(request_fetch(f"{site.origin}/page"), fetcher).state == FetchState.DONE
    assert site.asked == ["/page"]


def test_a_users_revalidation_of_a_robots_txt_does_not_rely_on_weirs_own(site: SmallSite, fetcher: Fetcher) -> None:
    """Weir keeps no body with its own robots fetch, so a 304 could refer to none."""
    site.answers["/robots.txt"] = (200, b"# nothing", {"ETag": '"v1"'})
    fetched(request_fetch(f"{site.origin}/page"), fetcher)
    fetch = fetched(request_fetch(f"{site.origin}/robots.txt", revalidate=True), fetcher)
    assert (fetch.status_code, fetch.content, fetch.unchanged_from_id) == (200, b"# nothing", None)
    assert RobotsFile.objects.get().state == RobotsState.RULES


@pytest.mark.parametrize(("user_agent", "warnings"), [("ShopBot/1.0", 1), ("ShopBot/1.0 (bot@shop.example)", 0)])
def test_a_fetcher_without_a_contact_says_so_once(user_agent: str, warnings: int, settings: Settings) -> None:
    """When it starts, and not with every request."""
    settings.WEIR_FETCH_USER_AGENT = user_agent
    with capture_logs() as entries:
        Fetcher().close(1.0)
    assert [entry["event"] for entry in entries].count("user_agent_without_contact") == warnings
