"""What a secret says of an OAuth client, what is asked with it, and what a server of access tokens may answer."""

import base64
import json
import math
import sys
from urllib.parse import quote_plus

import pytest
from pytest_django import Settings

from tests.cases import case, for_each
from weir.conf.oauth_clients import OAuthClient, oauth_client
from weir.conf.secrets import SecretUnusable, secret
from weir.workers.fetches import checks
from weir.workers.fetches.access_tokens import answers, sealing, tokens
from weir.workers.fetches.fetcher.http import token_requests
from weir.workers.fetches.targets import parts_of

CLIENT = {"token_url": "https://a.example/token", "client_id": "shop", "client_secret": "hidden-17"}
# What a server may have got, and say as its error code.
REPEATED = (
    CLIENT["client_secret"],
    CLIENT["client_secret"][:-1],
    quote_plus("hidden/17 "),
    base64.b64encode(b"shop:hidden-17").decode(),
)
GOOD = {"access_token": "t", "token_type": "Bearer", "expires_in": 600}


def client(settings: Settings, **others: object) -> OAuthClient:
    settings.WEIR_SECRETS = {"SHOP": {**CLIENT, **others}}
    return oauth_client("SHOP")


def test_a_client_is_described_by_a_dict_or_by_json(settings: Settings) -> None:
    """It is sent to nobody but its server, and is not shown where it is printed."""
    of_dict = client(settings)
    with pytest.raises(SecretUnusable, match=r"write {token:SHOP}"):
        secret("SHOP")
    settings.WEIR_SECRETS = {"SHOP": json.dumps(CLIENT)}
    assert oauth_client("SHOP") == of_dict
    assert "hidden" not in repr(of_dict)


def test_a_check_warns_of_clients_without_the_package_that_encrypts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the settings and in variables; other secrets need no package."""
    settings.WEIR_SECRETS = {"SHOP": CLIENT, "KEY": "hidden-17"}
    monkeypatch.setenv("WEIR_SECRET_BANK", json.dumps(CLIENT))
    assert checks.access_tokens_can_be_kept() == []
    monkeypatch.setitem(sys.modules, "cryptography", None)
    [warning] = checks.access_tokens_can_be_kept()
    assert (warning.id, warning.msg.endswith("describe: BANK, SHOP.")) == ("weir.W038", True)
    monkeypatch.delenv("WEIR_SECRET_BANK")
    settings.WEIR_SECRETS = {"KEY": "hidden-17"}
    assert checks.access_tokens_can_be_kept() == []


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({**CLIENT, "auth": "hidden"}, 'auth must be "basic" or "body"'),
        ({**CLIENT, "client_id": 7}, "it needs client_id, a text"),
        ({**CLIENT, "client_secret": ""}, "it needs client_secret, a text"),
        ({**CLIENT, "scope": {"hidden": 1}}, "scope must be a text, or several"),
        ({**CLIENT, "parameters": ["hidden"]}, "parameters must map names to texts"),
        ({**CLIENT, "parameters": {"grant_type": "hidden"}}, "parameters must not have client_id"),
        ({**CLIENT, "parameters": {"x": "hidden" * 2_000}}, "at most 8,192 characters"),
        ({**CLIENT, "token_url": "https://a.example/token?key=hidden%2D17"}, "has the client_secret in it"),
    ],
)
def test_what_describes_no_client_is_said_and_not_quoted(settings: Settings, said: object, sentence: str) -> None:
    settings.WEIR_SECRETS = {"SHOP": said}
    with pytest.raises(SecretUnusable, match=sentence) as refused:
        oauth_client("SHOP")
    assert "hidden" not in str(refused.value)


def test_credentials_are_encoded_as_in_a_form_before_they_are_joined(settings: Settings) -> None:
    """As RFC 6749, 2.3.1 has it, by which a colon, a space, a plus and a percent sign survive."""
    for name, password, sent in (
        ("1PpG/Q 1", "z/tZ9VwFZqApmIQ+ZH1I5pLk/uB4ud:X2/8bL+wfFTt1rFw=", None),
        ("percent-sign-client", "foo%Qbar", "percent-sign-client:foo%25Qbar"),
        ("ü", "very+secret", "%C3%BC:very%2Bsecret"),
    ):
        request = token_requests.request(
            client(settings, client_id=name, client_secret=password), parts_of("https://a.example/t?x=1"), is_last=False
        )
        head, _, body = request.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /t?x=1 HTTP/1.1\r\n")
        assert body == b"grant_type=client_credentials"
        [line] = [line for line in head.split(b"\r\n") if line.startswith(b"Authorization: Basic ")]
        encoded = line.removeprefix(b"Authorization: Basic ")
        if sent is None:  # the example of a report: github.com/openid/AppAuth-Android/issues/337
            assert encoded == (
                b"MVBwRyUyRlErMTp6JTJGdFo5VndGWnFBcG1JUSUyQlpIMUk1cExrJTJGdUI0dWQlM0FYMiUyRjhiTCUyQndmRlR0MXJGdyUzRA=="
            )
        else:
            assert base64.b64decode(encoded).decode() == sent


@pytest.mark.parametrize(
    ("said", "lifetime_s"),
    [
        ({}, 600),
        ({"expires_in": "3599"}, 3_599),
        ({"expires_in": 3599.5}, 3_599.5),
        ({"expires_in": None}, answers.UNSAID_S),
        ({"expires_in": 3_600_000_000}, answers.LONGEST_S),
        ({"token_type": "bearer"}, 600),
        ({"refresh_token": "r", "scope": None}, 600),
        ({"access_token": "a" * 8_192}, 600),
    ],
)
def test_tokens_as_servers_give_them_are_taken(settings: Settings, said: dict[str, object], lifetime_s: float) -> None:
    """Also without a type, or with a byte order mark."""
    shop = client(settings)
    given = {**GOOD, **said}
    for content in (json.dumps(given).encode(), b"\xef\xbb\xbf" + json.dumps(given).encode()):
        reading = answers.read(shop, 200, content)
        assert (reading.error, reading.lifetime_s) == ("", lifetime_s)
        assert sealing.unseal(shop, reading.sealed or b"") == given["access_token"]
    assert answers.read(shop, 201, b'{"access_token": "t"}').error == ""


def test_what_is_no_token_is_said_and_nothing_else_is_quoted(settings: Settings) -> None:
    """A server may say anything."""
    shop = client(settings)
    wrong: dict[bytes, str] = {
        b"": "answered 200, without an access_token",
        b"[" * 60_000: "answered 200, without an access_token",
        b"access_token=secret-text&token_type=bearer": "answered 200, without an access_token",
        b'["access_token"]': "answered 200, without an access_token",
        b"\xff\xfe": "answered 200, without an access_token",
        b'{"error": "invalid_client"}': "answered 200: invalid_client",
        **{json.dumps({"error": code}).encode(): "answered 200" for code in (*REPEATED, "x" * 1_000, "a\nb")},
    }
    changed: list[tuple[dict[str, object], str]] = [
        ({"access_token": ""}, "without an access_token"),
        ({"access_token": ["secret-text"]}, "without an access_token"),
        ({"access_token": "secret-text\r\nX: 1"}, "printable ASCII"),
        ({"access_token": "sécret-text"}, "printable ASCII"),
        ({"access_token": "a" * 8_193}, "printable ASCII"),
        ({"token_type": "mac"}, "another type than Bearer"),
    ]
    lifetimes = (0, -1, "soon", True, [3600], math.nan, "-inf")
    changed.extend(({"expires_in": lifetime}, "no number of seconds") for lifetime in lifetimes)
    wrong |= {json.dumps({**GOOD, **said}).encode(): sentence for said, sentence in changed}
    for content, sentence in wrong.items():
        with case(content[:60].decode("latin-1")):
            reading = answers.read(shop, 200, content)
            assert reading.sealed is None
            assert reading.error.startswith("the secret SHOP brings no access token: the server ")
            assert reading.error.endswith(sentence) or sentence in reading.error
            assert "secret-text" not in reading.error
            assert not [text for text in REPEATED if text in reading.error]


@for_each(
    ("lifetime_s", "usable_s", "fresh_s"),
    [(86_400, 86_390, 77_760), (3_600, 3_590, 3_240), (300, 290, 270), (60, 54, 30), (20, 18, 10), (3, 2.7, 1.5)],
)
def test_a_token_is_renewed_before_it_stops_being_used(lifetime_s: float, usable_s: float, fresh_s: float) -> None:
    """Even one whose life is short is not renewed sooner than after half of it."""
    assert (tokens.usable_s(lifetime_s), tokens.fresh_s(lifetime_s)) == (usable_s, fresh_s)
