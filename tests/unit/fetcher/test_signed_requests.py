"""Which requests are signed, and when: those by TLS, right before they are written, if the settings have a key."""

import asyncio
import sys
from dataclasses import replace

import pytest
from pytest_django import Settings

from tests.signing import TEST_KEY, new_key
from tests.unit.fetcher.test_attempt import job
from tests.unit.wire.pairs import pair
from weir.conf.oauth_clients import OAuthClient
from weir.ratelimit import clock
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.fetcher.http import heads
from weir.workers.fetches.fetcher.http.attempt import Attempt, AttemptContext
from weir.workers.fetches.fetcher.in_flight import BatchInFlight, HeldJob
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest
from weir.workers.fetches.jobs import HeldBody, Job
from weir.workers.fetches.targets import parts_of

TEXTS = {"name": "SHOP", "token_url": "https://t.example/", "client_id": "kim", "client_secret": "b" * 9}
CLIENT = OAuthClient(**TEXTS, auth="basic", parameters=())


@pytest.fixture(autouse=True)
def _signing(settings: Settings) -> None:
    settings.WEIR_SECRETS = {"NEW": new_key(), "TEST": TEST_KEY, "TEXT": "canary-17", "HALF": new_key()[:60]}
    settings.WEIR_SIGNATURE_AGENT = "https://bot.example"
    settings.WEIR_SIGNATURE_KEYS = ["NEW"]


def made(one: Job) -> bytes:
    return heads.request(one, parts_of(one.url), is_last=False).ready()


def test_requests_by_tls_are_signed_but_for_those_with_a_signature_of_their_own(settings: Settings) -> None:
    """Among the first are those that Weir itself makes, for a robots.txt or a token. A body stays where it is."""
    one = job(ended_s_ago=0)
    posted = replace(one, method="POST", body=HeldBody(b"a\r\n\r\nb"))
    cases = {
        "a page": one,
        "a robots.txt": replace(one, url="https://site.example/robots.txt", is_robots=True),
        "a token": replace(one, client=CLIENT, token_client=CLIENT.name),
        "a body": posted,
        "without TLS": replace(one, url="http://site.example/"),
        "of the site's": replace(one, site_headers={"signature-input": "x"}),
        "of the fetch's": replace(one, request_headers={"Signature": "x"}),
    }
    signed = {name: b"\r\nSignature-Agent: " in made(case) for name, case in cases.items()}
    assert [name for name, is_signed in signed.items() if is_signed] == ["a page", "a robots.txt", "a token", "a body"]
    head, body = made(posted).split(b"\r\n\r\n", 1)
    assert (b"\r\nSignature: weir=:" in head, body) == (True, b"a\r\n\r\nb")
    settings.WEIR_SIGNATURE_AGENT = ""
    assert b"Signature" not in made(one)


def test_a_request_that_cannot_be_signed_is_not_sent(settings: Settings) -> None:
    """It may be later, when the secret is there: the error says what to do, and quotes nothing of a secret."""
    said = {}
    for name in ("NONE", "TEST", "TEXT", "HALF"):
        settings.WEIR_SIGNATURE_KEYS = [name]
        with pytest.raises(UnsendableRequest) as found:
            made(job(ended_s_ago=0))
        assert not found.value.is_permanent
        said[name] = str(found.value)
    make_one = "make one by `openssl genpkey -algorithm ed25519`"
    no_key = f"has no private Ed25519 key in PEM without a password: {make_one}"
    assert said == {
        "NONE": "the secret NONE is not known to this process: set WEIR_SECRET_NONE, WEIR_SECRETS, or a file NONE in "
        "WEIR_SECRETS_DIR",
        "TEST": f"the secret TEST is the test key of RFC 9421, which everybody has: {make_one}",
        "TEXT": f"the secret TEXT {no_key}",
        "HALF": f"the secret HALF {no_key}",
    }


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.WEIR_SECRETS = {"NEW": new_key()}
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(UnsendableRequest, match=r"signatures need cryptography, install django-weir\[signatures\]"):
        made(job(ended_s_ago=0))


def test_a_signature_is_made_when_its_request_is_written() -> None:
    """Its times would be those of the connection otherwise, which is opened some time ahead."""
    signed_at: list[float] = []

    def signature() -> bytes:
        signed_at.append(clock.now())
        return b"Signature: 1\r\n"

    async def written() -> tuple[float, bytes]:
        start_at = clock.now() + 0.05
        one = replace(job(ended_s_ago=-5.0), start_at=start_at)
        attempt = Attempt(HeldJob(job=one, batch=BatchInFlight([one])), AttemptContext(allowed=Allowed()))
        connection, other_end = pair()
        with other_end:
            request = heads.Request(b"GET / HTTP/1.1\r\n\r\n", {}, (signature,))
            await attempt.write_in_turn(connection, request, AnswerReader(0))
            attempt.end()
            connection.close()
            return start_at, other_end.recv(100)

    start_at, sent = asyncio.run(written())
    assert sent == b"GET / HTTP/1.1\r\nSignature: 1\r\n\r\n"
    [moment] = signed_at
    assert moment >= start_at
