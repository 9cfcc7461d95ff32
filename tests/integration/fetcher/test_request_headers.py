"""The head of a request, as sites get it: which fields it has, where secrets go, and where they do not."""

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

import pytest
from pytest_django import Settings
from structlog.testing import capture_logs

from tests.answering import answering
from tests.integration.fetching import fetched
from tests.rows import rows
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.retrying import retry_failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

CANARY = "kim:canary-17"
IN_BASE64 = "a2ltOmNhbmFyeS0xNw=="


class RecordingSite:
    """A site that records the heads of requests, repeats them in its answer, and redirects where the path says."""

    def __init__(self, address: str) -> None:
        self.heads: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.heads.append(dict(self.headers.items()))
                site.paths.append(self.path)
                said = self.headers.get("Authorization", "")
                path = f"/?to=/seen?{said.split()[1]}" if self.path == "/repeat" else self.path
                path = f"/?to={quote(path, safe='')}" if path.startswith("/echo") else path
                _, redirects, place = path.partition("?to=")
                place = unquote(place.partition("&v=")[0])
                self.send_response(302 if redirects else 200)
                if redirects:
                    self.send_header("Location", place)
                self.send_header("X-You-Said", said)
                for number, form in enumerate((CANARY, quote(CANARY), quote(IN_BASE64)) if said else ()):
                    self.send_header(f"X-You-Mean-{number}", form)
                    self.send_header(f"X-{form.encode().hex()}", form.rstrip("="))
                self.send_header("ETag", f'"{said or "v1"}"')
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"page")

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.name = f"{address}:{self.server.server_port}"

    def url(self, path: str) -> str:
        return f"http://{self.name}{path}"


Serving = Callable[[], RecordingSite]


@pytest.fixture
def serving(settings: Settings) -> Iterator[Serving]:
    """Return a function that starts a site, at an address of its own. The secret SHOP is known."""
    settings.WEIR_SECRETS = {"SHOP": CANARY}
    with ExitStack() as leaving:
        numbers = iter(range(1, 250))

        def started() -> RecordingSite:
            made = RecordingSite(f"127.1.252.{next(numbers)}")
            site_settings.set_rate(made.name, "100/s")
            leaving.enter_context(answering(made.server))
            return made

        yield started


@pytest.fixture(autouse=True)
def _no_robots(settings: Settings) -> None:
    settings.WEIR_OBEY_ROBOTS = False


def test_a_request_has_the_fields_of_its_site_and_of_its_fetch(serving: Serving, fetcher: Fetcher) -> None:
    """Those of the fetch replace the site's, whatever the case of their names; each field is sent once."""
    site = serving()
    site_settings.set_rate(
        site.name, headers={"Authorization": "Bearer {secret:SHOP}", "X-Api-Key": "site", "accept": "text/html"}
    )
    fetched(request_fetch(site.url("/"), headers={"x-api-key": "fetch", "User-Agent": "ShopBot/1.0"}), fetcher)
    [head] = site.heads
    assert {name: head[name] for name in head if name not in {"Host", "Accept-Encoding"}} == {
        "User-Agent": "ShopBot/1.0",
        "accept": "text/html",
        "Authorization": f"Bearer {CANARY}",
        "x-api-key": "fetch",
    }


def test_what_was_set_for_a_site_can_be_taken_back(serving: Serving, fetcher: Fetcher) -> None:
    site = serving()
    for headers, sent in (({"X": "1"}, "1"), ({"X": "2"}, "2"), (site_settings.DEFAULT, None)):
        site_settings.set_rate(site.name, headers=headers)
        fetched(request_fetch(site.url("/")), fetcher)
        assert site.heads[-1].get("X") == sent


@pytest.mark.parametrize("of_site", [True, False])
def test_a_redirect_to_another_origin_takes_no_field_along_that_says_who_asks(
    serving: Serving, fetcher: Fetcher, of_site: bool
) -> None:
    """To the same origin it takes all. What was set for the other site is for what is asked for there, alone."""
    first, other = serving(), serving()
    headers = {"Authorization": "Basic {secret:SHOP|base64}", "Cookie": "id={secret:SHOP}", "X-A": "1"}
    site_settings.set_rate(other.name, headers={"X-Other": "{secret:SHOP}"})
    headers["Accept-Language"] = "de"
    if of_site:
        site_settings.set_rate(first.name, headers=headers)
        site_settings.set_rate(other.name, headers={"X-Other": "{secret:SHOP}", "Accept-Language": "fr"})
    given = {} if of_site else headers
    back = f"{other.url('/?to=')}{first.url('/back')}"
    fetched(request_fetch(first.url(f"/?to=/again?to={back}"), headers=given), fetcher)
    begun, again, returned = first.heads
    [away] = other.heads
    assert begun["Authorization"] == again["Authorization"] == f"Basic {IN_BASE64}"
    assert (begun["Cookie"], again["X-A"]) == (f"id={CANARY}", "1")
    for head in (away, returned):  # the other origin has chosen the URL to which it leads back
        assert {"Authorization", "Cookie", "X-A", "X-Other"}.isdisjoint(head)
        assert CANARY not in str(head)
        assert IN_BASE64 not in str(head)

    assert away["Accept-Language"] == ("fr" if of_site else "de"), "that of the site that is asked"
    assert returned["Accept-Language"] == "de"


def test_a_result_that_was_asked_for_in_another_way_is_not_revalidated(serving: Serving, fetcher: Fetcher) -> None:
    """Its body may be another one, or another customer's."""
    site = serving()
    for of_site, of_fetch in ((None, "1"), (None, "2"), (None, "2"), ("3", "2"), ("3", "2"), ("3", None), (None, None)):
        site_settings.set_rate(site.name, headers={"Y": of_site} if of_site else site_settings.DEFAULT)
        headers = {"X": of_fetch} if of_fetch else None
        fetched(request_fetch(site.url("/"), headers=headers, revalidate=True), fetcher)
    assert ["If-None-Match" in head for head in site.heads] == [False, False, True, False, True, False, False]


def test_a_fetch_that_is_retried_begins_at_its_origin_again(serving: Serving, fetcher: Fetcher) -> None:
    first, other = serving(), serving()
    fetch = request_fetch(first.url(f"/?to={other.url('/?to=ftp://x/')}"), headers={"X": "1"}, max_attempts=1)
    fetched(fetch, fetcher)
    assert retry_failed(Fetch.objects.all()).queued == 1
    fetched(fetch, fetcher)
    assert [head.get("X") for head in first.heads] == ["1", "1"]
    assert [head.get("X") for head in other.heads] == [None, None]


def test_a_secret_is_nowhere_but_in_the_request(serving: Serving, fetcher: Fetcher) -> None:
    """Not where the site repeats it, not in what is stored, not in the log; not either where the fetch fails."""
    site = serving()
    site_settings.set_rate(site.name, headers={"Authorization": "Basic {secret:SHOP|base64}"})
    with capture_logs() as logged:
        found = fetched(request_fetch(site.url("/repeat")), fetcher)
        fetched(request_fetch(site.url("/?to=ftp://x/"), max_attempts=1), fetcher)
        for _ in range(2):
            fetched(request_fetch(site.url("/"), revalidate=True), fetcher)
    assert len(site.heads) == 4
    assert "If-None-Match" not in site.heads[-1], "an ETag with a secret in it is not stored as it came"
    assert dict(found.headers)["X-You-Said"] == "Basic {secret:SHOP|base64}"
    assert (found.state, found.error) == (
        FetchState.FAILED,
        "redirected to a URL that contains a secret of the request",
    )
    stored = rows()
    assert "{secret:SHOP|base64}" in stored
    for text in (CANARY, quote(CANARY), IN_BASE64.rstrip("="), CANARY.encode().hex(), IN_BASE64.encode().hex()):
        assert text not in stored
        assert text not in str(logged)


def test_a_site_adds_parameters_to_its_urls_and_nothing_else_has_the_secrets_in_them(
    serving: Serving, fetcher: Fetcher
) -> None:
    """Not what is stored, where the site repeats them in a redirect, nor another origin, nor a URL from outside."""
    site, other = serving(), serving()
    site_settings.set_rate(site.name, query={"key": "{secret:SHOP}", "v": "1 ü"})
    query = f"v=1%20%C3%BC&key={quote(CANARY, safe='')}"
    with capture_logs() as logged:
        found = fetched(request_fetch(site.url("/a?key=mine&page=2&x={secret:SHOP}")), fetcher)
        again = fetched(request_fetch(site.url(f"/?to={quote(f'/b?{query}&page=3', safe='')}")), fetcher)
        fetched(request_fetch(site.url(f"/?to={other.url('/c')}")), fetcher)
        back = other.url(f"/?to={site.url('/d')}")
        fetched(request_fetch(site.url(f"/?to={back}")), fetcher)
        itself = fetched(request_fetch(site.url("/echo")), fetcher)
    assert [path for path in site.paths if "to=" not in path] == [
        f"/a?page=2&x={{secret:SHOP}}&{query}",
        f"/b?page=3&{query}",
        "/d",
        f"/echo?{query}",
    ]
    assert other.paths == ["/c", f"/?to={site.url('/d')}"]
    assert (found.status_code, again.hop_url) == (200, site.url("/b?page=3"))
    assert "redirected to itself" in itself.error
    for text in (CANARY, quote(CANARY, safe="")):
        assert text not in rows().replace(again.url, "").replace(quote(again.url), "")
        assert text not in str(logged)


def test_a_secret_that_is_not_known_fails_the_attempt_before_anything_is_sent(
    serving: Serving, fetcher: Fetcher, settings: Settings
) -> None:
    """It may be known later, or to another fetcher."""
    settings.WEIR_SECRETS = {}
    site = serving()
    fetch = fetched(request_fetch(site.url("/"), headers={"X": "{secret:SHOP}"}, max_attempts=1), fetcher)
    assert (fetch.state, site.heads) == (FetchState.FAILED, [])
    assert "the secret SHOP is not known to this process: set WEIR_SECRET_SHOP" in fetch.error


@pytest.mark.parametrize("value", ["pässword", "a\r\nHost: b.example", "a\n", " a"])
def test_a_secret_that_no_header_can_have_is_not_sent(
    serving: Serving, fetcher: Fetcher, settings: Settings, value: str
) -> None:
    """In Base64, any can be."""
    settings.WEIR_SECRETS = {"SHOP": value}
    site = serving()
    fetch = fetched(request_fetch(site.url("/"), headers={"X": "{secret:SHOP}"}, max_attempts=1), fetcher)
    assert (fetch.state, site.heads) == (FetchState.FAILED, [])
    assert "the secret in the header X cannot be sent" in fetch.error
    fetched(request_fetch(site.url("/"), headers={"X": "a {secret:SHOP|base64}"}), fetcher)
    assert base64.b64decode(site.heads[0]["X"].removeprefix("a").strip()).decode() == value


def test_fetches_with_other_headers_are_others() -> None:
    """With `dedupe`; the order of the fields, and the case of their names, does not matter."""
    url = "https://a.example/"
    given: list[dict[str, str] | None] = [None, {}, {"A": "1", "B": "2"}, {"b": "2", "A": "1"}, {"a": "1", "B": "2"}]
    found = [request_fetch(url, headers=headers, dedupe=True).pk for headers in (*given, {"A": "1"})]
    assert [found.index(pk) for pk in found] == [0, 0, 2, 2, 2, 5]
    assert Fetch.objects.count() == 3
