"""A site's network: its authorities, our certificate, and its proxy; and what no other connection may have of them."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import trustme
from django.db.models.functions import Now
from pytest_django import Settings
from structlog.testing import capture_logs

from tests.answering import answering
from tests.integration.fetching import fetch_until, fetched
from tests.proxies import Asked, Proxy
from tests.rows import rows
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site as SiteRow
from weir.ratelimit.models import StartTotal
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

CREDENTIALS = "kim:canary-19"
WRONG = "kim:wrong-1900"


class Seen(NamedTuple):
    """A request as a site got it."""

    at: float
    connection: int  # the port of its client
    client: str  # the name in the client's certificate
    line: str
    headers: dict[str, str]


class Site(ThreadingHTTPServer):
    """A site, with TLS where `context` is given."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__((address, 0), _Handler)
        self.context = context
        self.seen: list[Seen] = []
        self.name = f"{address}:{self.server_port}"

    def get_request(self) -> tuple[Any, Any]:
        opened, address = super().get_request()
        opened.settimeout(10)
        return (self.context.wrap_socket(opened, server_side=True) if self.context else opened), address

    def serve_forever(self, poll_interval: float = 0.02) -> None:
        """Look often whether to end."""
        super().serve_forever(poll_interval)

    def handle_error(self, *_arguments: object) -> None:
        """A client that gives up is no fault."""

    def url(self, path: str = "/") -> str:
        return f"{'https' if self.context else 'http'}://{self.name}{path}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        shown: Any = self.connection.getpeercert() if self.server.context else None
        client = dict(field for [field] in shown["subject"])["organizationalUnitName"] if shown else ""
        headers = dict(self.headers.items())
        self.server.seen.append(Seen(time.monotonic(), self.client_address[1], client, self.requestline, headers))
        self.send_response(200)
        if self.path.startswith("/close"):
            self.send_header("Connection", "close")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class World(NamedTuple):
    """An authority of sites, one of clients, and what starts sites and proxies."""

    sites: trustme.CA
    clients: trustme.CA
    site: Callable[..., Site]
    proxy: Callable[..., Proxy]


def pem(*blobs: trustme.Blob) -> str:
    return b"".join(blob.bytes() for blob in blobs).decode()


@pytest.fixture
def world(settings: Settings) -> Iterator[World]:
    """Make it. The secrets are known: CA, OTHER_CA, ONE and TWO (certificates), PROXY and WRONG (credentials)."""
    settings.WEIR_OBEY_ROBOTS = False
    settings.WEIR_FETCH_ALLOW_PORTS = ["443", "1024-65535"]
    sites, clients = trustme.CA(), trustme.CA()
    one, two = (clients.issue_cert(f"{name}@weir.example", organization_unit_name=name) for name in ("one", "two"))
    settings.WEIR_SECRETS = {
        "CA": pem(sites.cert_pem),
        "OTHER_CA": pem(clients.cert_pem),
        "ONE": pem(one.private_key_and_cert_chain_pem),
        "TWO": pem(two.private_key_and_cert_chain_pem),
        "PROXY": CREDENTIALS,
        "WRONG": WRONG,
    }
    with ExitStack() as leaving:
        numbers = iter(range(1, 250))

        def site(*, by_tls: bool = True, asks: bool = False, rate: str = "100/s", name: str = "") -> Site:
            address, context = f"127.1.250.{next(numbers)}", None
            if by_tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                sites.issue_cert(name or address).configure_cert(context)
            if context and asks:
                context.verify_mode = ssl.CERT_REQUIRED
                clients.configure_trust(context)
            made = leaving.enter_context(answering(Site(address, context)))
            made.name = f"{name}:{made.server_port}" if name else made.name
            site_settings.set_rate(made.name, rate)
            return made

        def proxy(**options: Any) -> Proxy:
            made = leaving.enter_context(answering(Proxy(f"127.3.249.{next(numbers)}", **options)))
            settings.WEIR_FETCH_PROXIES = [*getattr(settings, "WEIR_FETCH_PROXIES", []), made.place]
            return made

        yield World(sites, clients, site, proxy)


def error_of(url: str, fetcher: Fetcher) -> str:
    """Fetch the page, and return why that failed; "" if it did not."""
    fetch = fetched(request_fetch(url, max_attempts=1), fetcher)
    assert (fetch.state == FetchState.DONE) == (not fetch.error)
    return fetch.error.removesuffix(" (attempt 1 of 1)")


def test_a_site_may_have_authorities_of_its_own(world: World, fetcher: Fetcher, settings: Settings) -> None:
    """They count instead of the system's, for this site alone; bundles have their names between them, in UTF-8."""
    site, other = world.site(), world.site()
    said = []
    bundle = "\ufeff{OTHER_CA}\n# F\u0151tan\u00fas\u00edtv\u00e1ny\r\n\ufeff{CA}".format(**settings.WEIR_SECRETS)
    settings.WEIR_SECRETS = {**settings.WEIR_SECRETS, "BUNDLE": bundle}
    for network in (None, {"ca": "{secret:OTHER_CA}"}, {"ca": "{secret:CA}"}, {"ca": "{secret:BUNDLE}"}):
        if network:
            site_settings.set_rate(site.name, network=network)
        said.append(error_of(site.url(), fetcher))
    invalid = "the site's certificate is not valid: unable to get local issuer certificate"
    assert said == [invalid, invalid, "", ""]
    assert error_of(other.url(), fetcher) == invalid


def test_a_connection_has_one_certificate_of_ours(world: World, fetcher: Fetcher) -> None:
    """It carries many requests, but those of another certificate get a connection of their own."""
    site = world.site(asks=True)
    for name in ("ONE", "ONE", "TWO", "ONE"):
        network = {"ca": "{secret:CA}", "certificate": f"{{secret:{name}}}"}
        site_settings.set_rate(site.name, network=network)
        assert error_of(site.url(), fetcher) == ""
    assert [seen.client for seen in site.seen] == ["one", "one", "two", "one"]
    first, again, other, last = (seen.connection for seen in site.seen)
    assert (first == again == last, first == other) == (True, False)
    site_settings.set_rate(site.name, network={"ca": "{secret:CA}"})
    assert error_of(site.url(), fetcher) != ""
    assert len(site.seen) == 4


def test_requests_go_through_the_proxy_of_their_site(world: World, fetcher: Fetcher) -> None:
    """By TLS in a tunnel, which shows the proxy the host alone; it finds the host. Sites see nothing of the secret."""
    proxy = world.proxy(credentials=CREDENTIALS)
    secure, plain = world.site(name="secure.weir.invalid"), world.site(by_tls=False)
    proxy.knows["secure.weir.invalid"] = str(secure.server_address[0])
    network = {"proxy": f"http://{{secret:PROXY}}@{proxy.place}"}
    site_settings.set_rate(secure.name, network={**network, "ca": "{secret:CA}"})
    site_settings.set_rate(plain.name, network=network)
    with capture_logs() as logged:
        ends = [error_of(url, fetcher) for url in (secure.url("/a?b"), secure.url("/c"), plain.url("/d?e"))]
    assert ends == ["", "", ""]
    assert proxy.asked == [
        Asked(f"CONNECT {secure.name} HTTP/1.1", CREDENTIALS),  # the second request has the same tunnel
        Asked(f"GET {plain.url('/d?e')} HTTP/1.1", CREDENTIALS),
    ]
    assert [seen.line for seen in (*secure.seen, *plain.seen)] == [
        "GET /a?b HTTP/1.1", "GET /c HTTP/1.1", "GET /d?e HTTP/1.1",
    ]  # fmt: skip
    for seen in (*secure.seen, *plain.seen):
        assert "Proxy-Authorization" not in seen.headers
    assert "canary-19" not in f"{rows()}{logged}"


def test_no_connection_of_another_way_is_used(world: World, fetcher: Fetcher) -> None:
    """Neither that of another proxy, nor one without."""
    site, proxies = world.site(by_tls=False), [world.proxy(), world.proxy()]
    secure = world.site()
    for made in (site, secure):
        for proxy in (None, *proxies, None, proxies[1]):
            network = {"ca": "{secret:CA}"} | ({"proxy": f"http://{proxy.place}"} if proxy else {})
            site_settings.set_rate(made.name, network=network)
            assert error_of(made.url(), fetcher) == ""
    assert [[asked.line.split(" ")[0] for asked in proxy.asked] for proxy in proxies] == [
        ["GET", "CONNECT"],
        ["GET", "GET", "CONNECT"],
    ]


def test_a_proxy_that_does_not_help_is_said(world: World, fetcher: Fetcher, settings: Settings) -> None:
    """Nothing is asked of a proxy that the settings do not allow, or for what the URL itself shows to be forbidden."""
    proxy, site = world.proxy(credentials=CREDENTIALS), world.site()
    site_settings.set_rate(site.name, network={"proxy": f"http://{{secret:WRONG}}@{proxy.place}"})
    refused = f"not connected to the site: its proxy {proxy.place} answers 407: it"
    assert error_of(site.url(), fetcher) == f"{refused} does not accept the secret WRONG"
    site_settings.resume(site.name)
    plain = world.site(by_tls=False)
    site_settings.set_rate(plain.name, network={"proxy": f"http://{proxy.place}"})
    assert error_of(plain.url(), fetcher) == f"{refused} asks for credentials, and the network names none"
    for secrets, said in (
        ({"WRONG": CREDENTIALS}, ""),
        ({}, "the secret WRONG is not known to this process"),
    ):
        settings.WEIR_SECRETS = {**secrets}
        network = {"proxy": f"http://{{secret:WRONG}}@{proxy.place}"}
        site_settings.set_rate(site.name, network=network)
        error = error_of(site.url(), fetcher)
        assert said in error if said else "certificate is not valid" in error
    asked = len(proxy.asked)

    site_settings.set_rate("127.2.0.1", "100/s", network={"proxy": f"http://{proxy.place}"})
    assert "127.2.0.1 is loopback" in error_of("https://127.2.0.1/", fetcher)
    site_settings.set_rate("a.weir.invalid:22", "100/s", network={"proxy": f"http://{proxy.place}"})
    assert "port 22 is not allowed" in error_of("https://a.weir.invalid:22/", fetcher)
    settings.WEIR_FETCH_PROXIES = []
    assert error_of(site.url(), fetcher) == (
        f"not connected to the site: WEIR_FETCH_PROXIES does not allow its proxy {proxy.place}"
    )
    with pytest.raises(ValueError, match="WEIR_FETCH_PROXIES"):
        site_settings.set_rate(site.name, network={"proxy": f"http://{proxy.place}"})
    assert len(proxy.asked) == asked


@pytest.mark.parametrize("by_tls", [True, False])
def test_a_proxy_that_asks_for_other_credentials_is_asked_once(by_tls: bool, world: World, fetcher: Fetcher) -> None:
    """It would refuse all fetches of the site, and may shut us out: the others wait, and lose no attempt."""
    proxy, site = world.proxy(credentials=CREDENTIALS), world.site(by_tls=by_tls, rate="6/m")
    site_settings.set_rate(site.name, network={"proxy": f"http://{{secret:WRONG}}@{proxy.place}"})
    request_fetches([site.url(f"/{number}") for number in range(5)])
    backed_off = SiteRow.objects.filter(name=site.name, backed_off_until__gt=Now())
    waiting = Fetch.objects.filter(state=FetchState.QUEUED)
    fetch_until(fetcher, lambda: backed_off.exists() and waiting.count() == 5, "the back-off")
    assert "does not accept the secret WRONG" in backed_off.get().backoff_error
    assert sorted(waiting.values_list("attempts", flat=True)) == [0, 0, 0, 0, 1]
    assert len(proxy.asked) <= 2, "the second tunnel may be open already, ahead of its slot"
    assert "wrong-1900" not in rows()


def test_a_secret_without_what_is_needed_is_said(world: World, fetcher: Fetcher, settings: Settings) -> None:
    """The error quotes nothing of it."""
    site = world.site()
    key = settings.WEIR_SECRETS["ONE"].partition("-----BEGIN CERTIFICATE")[0]
    for secret in ("canary-19", key, "\u00fc"):
        settings.WEIR_SECRETS = {**settings.WEIR_SECRETS, "BAD": secret}
        said = {}
        for name in ("ca", "certificate"):
            site_settings.set_rate(site.name, network={name: "{secret:BAD}"})
            said[name] = error_of(site.url(), fetcher)
        assert said == {
            "ca": "the secret BAD has no certificates of authorities in PEM",
            "certificate": "the secret BAD has no certificate with its key in PEM, without a password",
        }
    assert not site.seen


def test_a_slow_proxy_makes_no_request_early_or_late(world: World, fetcher: Fetcher) -> None:
    """Tunnels are opened before their slots come: in its slot, a request goes to the site."""
    proxy, site = world.proxy(), world.site(rate="2/s")
    proxy.delay_s = 0.3
    site_settings.set_rate(site.name, network={"proxy": f"http://{proxy.place}", "ca": "{secret:CA}"})
    fetches = request_fetches([site.url(f"/close{number}") for number in range(3)])
    done = Fetch.objects.filter(pk__in=[fetch.pk for fetch in fetches], state=FetchState.DONE)
    fetch_until(fetcher, lambda: done.count() == len(fetches), "all pages")
    assert min(after.at - before.at for before, after in pairwise(site.seen)) > 0.49
    assert not StartTotal.objects.filter(out_of_time__gt=0).exists()
    assert proxy.asked_at[1] < site.seen[0].at, "half a second before its slot, while the first tunnel is opened"
