"""A verifier that is not Weir's accepts what Weir sends and publishes, as it comes over the wire."""

import base64
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
import trustme
from django.test import Client
from http_message_signatures import InvalidSignature
from pytest_django import Settings
from structlog.testing import capture_logs

from tests.answering import answering
from tests.integration.fetching import fetched
from tests.rows import rows
from tests.signing import answer, message, new_key, verified
from weir.ratelimit import site_settings
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.fetcher import Fetcher
from weir.workers.fetches.fetcher.http import connector
from weir.workers.fetches.fetcher.wire import tls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

AGENT = "https://bot.example"
DIRECTORY = "/.well-known/http-message-signatures-directory"
SITES = ("127.1.251.1", "127.1.251.2")
COVERED = ('"@authority"', '"@method"', '"@path"')


class Sent(NamedTuple):
    """A request as a site got it."""

    at: float
    method: str
    url: str
    headers: Mapping[str, str]


@pytest.fixture(autouse=True)
def sent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[Sent]]]:
    """Run two sites by TLS, which fetchers trust; return their origins, and what they are sent.

    The first one redirects to the second one. Two keys are published: NEW, which signs, and OLD.
    """
    settings.WEIR_SECRETS = {"NEW": new_key(), "OLD": new_key()}
    settings.WEIR_SIGNATURE_AGENT, settings.WEIR_SIGNATURE_KEYS = AGENT, ["NEW", "OLD"]
    settings.WEIR_OBEY_ROBOTS = False
    authority = trustme.CA()
    context = tls.context()
    authority.configure_trust(context)
    monkeypatch.setattr(connector, "context", lambda: context)
    got: list[Sent] = []
    origins: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            origin = f"https://{self.headers['Host']}"
            got.append(Sent(time.time(), self.command, f"{origin}{self.path}", dict(self.headers.items())))
            is_first = origin == origins[0]
            self.send_response(302 if is_first else 200)
            if is_first:
                self.send_header("Location", f"{origins[1]}/b?c=d")
            self.send_header("X-You-Said", str(self.headers["Signature"]))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    class Site(ThreadingHTTPServer):
        def serve_forever(self, poll_interval: float = 0.02) -> None:
            super().serve_forever(poll_interval)

        def get_request(self) -> tuple[Any, Any]:
            opened, address = super().get_request()
            opened.settimeout(10)
            return of_site[self.server_address[0]].wrap_socket(opened, server_side=True), address

    of_site: dict[Any, ssl.SSLContext] = {}
    with answering(Site((SITES[0], 0), Handler)) as one, answering(Site((SITES[1], 0), Handler)) as other:
        for site in (one, other):
            host, port = str(site.server_address[0]), site.server_port
            of_site[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(host).configure_cert(of_site[host])
            origins.append(f"https://{host}:{port}")
            site_settings.set_rate(f"{host}:{port}", "100/s")
        yield origins, got


def published(client: Client, host: str = "localhost") -> tuple[Any, dict[str, bytes]]:
    """Return the answer with the directory, and the keys in it."""
    found = client.get(DIRECTORY, headers={"host": host})
    keys = {key["kid"]: base64.urlsafe_b64decode(f"{key['x']}=") for key in json.loads(found.content)["keys"]}
    return found, keys


@pytest.mark.parametrize("form", ["string", "dictionary"])
def test_each_request_is_signed_for_whom_it_goes_to(
    sent: tuple[list[str], list[Sent]], fetcher: Fetcher, client: Client, settings: Settings, form: str
) -> None:
    """By the first key, for a minute, and with a nonce of its own. Nothing of a private key is stored or logged.

    A site whose clock is five seconds slow does not take it for one of the future.
    """
    settings.WEIR_SIGNATURE_AGENT_FORM = form
    origins, got = sent
    _, keys = published(client)
    with capture_logs() as logged:
        found = fetched(request_fetch(f"{origins[0]}/a?b=c"), fetcher)
    assert [each.url for each in got] == [f"{origins[0]}/a?b=c", f"{origins[1]}/b?c=d"]
    agent, covered = f'"{AGENT}"', '"signature-agent"'
    if form == "dictionary":
        agent, covered = f"weir={agent}", f'{covered};key="weir"'
    nonces = set()
    for at, method, url, headers in got:
        assert headers["Signature-Agent"] == agent
        [judged] = verified(message(method, url, headers), keys, "web-bot-auth", *COVERED, covered)
        said: dict[str, Any] = judged.parameters
        assert said["keyid"] == next(iter(keys)), "the first key is that which signs"
        assert at - 7 < said["created"] <= at - 5
        assert said["expires"] == said["created"] + 65
        nonces.add(said["nonce"])
        for other in (f"{origins[0]}/", "https://else.example/a"):
            with pytest.raises(InvalidSignature):
                verified(message(method, other, headers), keys, "web-bot-auth")
    assert len(nonces) == len(got)
    assert "weir=:" in dict(found.headers)["X-You-Said"]
    for pem in settings.WEIR_SECRETS.values():
        assert pem.splitlines()[1] not in f"{rows()}{logged}"


def test_the_directory_is_signed_by_each_of_its_keys(client: Client, settings: Settings) -> None:
    """For the authority of the setting, whichever host was asked. Who takes a key back publishes the others."""
    settings.ALLOWED_HOSTS = ["*"]
    found, keys = published(client, host="elsewhere.example")
    assert found.headers["Content-Type"] == "application/http-message-signatures-directory+json"
    request = message("GET", f"{AGENT}{DIRECTORY}", {})
    judged = verified(
        answer(200, dict(found.items()), request),
        keys,
        "http-message-signatures-directory",
        '"@authority";req',
        body=found.content,
    )
    assert [each.parameters["keyid"] for each in judged] == [*keys]
    assert len(keys) == 2
    assert {int(each.parameters["created"]) <= time.time() - 5 for each in judged} == {True}
    as_asked = message("GET", f"https://elsewhere.example{DIRECTORY}", {})
    with pytest.raises(InvalidSignature):
        verified(answer(200, dict(found.items()), as_asked), keys, "http-message-signatures-directory")

    settings.WEIR_SIGNATURE_KEYS = ["OLD"]
    assert [*published(client)[1]] == [[*keys][1]]


def test_there_is_no_directory_without_keys(client: Client, settings: Settings) -> None:
    """If a key cannot be used, nothing is said of the others: sites would take it for one that was taken back."""
    settings.WEIR_SIGNATURE_KEYS = ["NEW", "LOST"]
    with capture_logs() as logged:
        found = client.get(DIRECTORY)
    assert found.status_code == 503
    assert "LOST" not in found.content.decode()
    assert "the secret LOST is not known" in str(logged)
    settings.WEIR_SIGNATURE_KEYS = []
    assert client.get(DIRECTORY).status_code == 404
