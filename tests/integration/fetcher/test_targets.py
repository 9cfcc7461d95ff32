"""Targets at the wire: a site sees what was given, and is not asked for the same twice."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.answering import answering
from tests.integration.fetching import fetch_until, fetched
from tests.unit.fetches.browsers import TEXTS
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

ORIGIN = "http://a.example"  # of the table
SIGNED = "/file.zip?type=application%2Fzip&expires=1900000000&signature=a%2Bb%3D"
SPELLINGS = ("%2A", "%7E", "%40", "%3A", "%27", "%28", "%2C", "%3D", "%24", "%21", "%41")


class Picky(BaseHTTPRequestHandler):
    """A site that knows the paths of REDIRECTS in one spelling only, and records what it is asked for."""

    REDIRECTS = {
        "/signed": SIGNED,
        "/itself": "/itself",
        "/there": "/and-back",
        "/and-back": "/there#part",
        "/query": "/query?",
        **{f"/want{sign[1:]}/{chr(int(sign[1:], 16))}": f"/want{sign[1:]}/{sign}" for sign in SPELLINGS},
    }
    asked: list[str]

    def do_GET(self) -> None:
        target = self.requestline.split(" ")[1]  # `path` is not what was received
        self.asked.append(target)
        location = self.REDIRECTS.get(target)
        self.send_response(302 if location else 200)
        self.send_header("Location", location or "")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    """Return the address of a site that is picky."""
    Picky.asked = []
    with answering(ThreadingHTTPServer(("127.1.250.251", 0), Picky)) as server:
        site_settings.set_rate(f"127.1.250.251:{server.server_port}", "200/s")
        yield f"http://127.1.250.251:{server.server_port}"


def asked_for(site: str, fetcher: Fetcher, *paths: str) -> list[str]:
    """Return what the site has been asked for when these have ended, with where it redirected to."""
    fetches = request_fetches([site + path for path in paths])
    fetch_until(fetcher, lambda: not Fetch.objects.unfinished().exists(), "the end of all")
    ended = Fetch.objects.filter(pk__in=[fetch.pk for fetch in fetches])
    assert set(ended.values_list("state", "error")) == {(FetchState.DONE, "")}
    return sorted(Picky.asked)


def test_a_site_is_asked_for_what_browsers_would_ask(site: str, fetcher: Fetcher) -> None:
    """To the byte."""
    rows = [row for rows in TEXTS.values() for row in rows if all(url.startswith(f"{ORIGIN}/") for url in row)]
    rows = [(text, url) for text, url in rows if not url.endswith("?")]
    asked = asked_for(site, fetcher, *(text.removeprefix(ORIGIN) for text, _ in rows))
    assert asked == sorted(url.removeprefix(ORIGIN) for _, url in rows)


def test_a_signed_url_and_a_spelling_that_a_site_wants_are_asked_for_as_they_are(site: str, fetcher: Fetcher) -> None:
    """Directly, and where the site redirects to it."""
    paths = [path for path in Picky.REDIRECTS if path.startswith(("/signed", "/want"))]
    expected = [*paths, *(Picky.REDIRECTS[path] for path in paths), SIGNED]
    assert asked_for(site, fetcher, *paths, SIGNED) == sorted(expected)


def test_an_empty_query_is_asked_for(site: str, fetcher: Fetcher) -> None:
    """Directly, and where the site redirects to it."""
    assert asked_for(site, fetcher, "/query", "/feed?") == ["/feed?", "/query", "/query?"]


@pytest.mark.parametrize(("path", "times", "words"), [("/itself", 1, "to itself"), ("/there", 2, "to where it began")])
def test_a_site_that_redirects_back_is_not_asked_again(
    site: str, fetcher: Fetcher, path: str, times: int, words: str
) -> None:
    """Each redirect would take a slot, ten times."""
    fetch: Fetch = fetched(request_fetch(site + path), fetcher)
    assert fetch.state == FetchState.FAILED
    assert fetch.error.startswith(f"redirected {words}: asked again, the site would say the same.")
    assert len(Picky.asked) == times
