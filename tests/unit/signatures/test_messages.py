"""What is signed is what RFC 9421 and the drafts of Web Bot Auth say: their own examples come out byte by byte."""

from datetime import UTC, datetime

from tests.cases import for_each
from tests.signing import TEST_KEY, TEST_KEYID, TEST_X
from weir.signatures.directory import answer
from weir.signatures.keys import parsed
from weir.signatures.messages import Component, sign

KEY = parsed("TEST", TEST_KEY)
AGENT = '"https://signature-agent.test"'
COMMON = {"keyid": TEST_KEYID, "alg": "ed25519"}
EXAMPLES = {  # label, components, parameters, signature
    "RFC 9421, B.2.6": (
        "sig-b26",
        [
            Component('"date"', "Tue, 20 Apr 2021 02:07:55 GMT"),
            Component('"@method"', "POST"),
            Component('"@path"', "/foo"),
            Component('"@authority"', "example.com"),
            Component('"content-type"', "application/json"),
            Component('"content-length"', "18"),
        ],
        {"created": 1618884473, "keyid": "test-key-ed25519"},
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==",
    ),
    "web-bot-auth, Signature-Agent as a dictionary": (
        "sig2",
        [Component('"@authority"', "example.com"), Component('"signature-agent";key="agent2"', AGENT)],
        {
            "created": 1735689600,
            **COMMON,
            "expires": 4889289600,
            "nonce": "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
            "tag": "web-bot-auth",
        },
        "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==",
    ),
    "web-bot-auth, Signature-Agent as a string": (
        "sig2",
        [Component('"@authority"', "example.com"), Component('"signature-agent"', AGENT)],
        {
            "created": 1735689600,
            **COMMON,
            "expires": 1735693200,
            "nonce": "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
            "tag": "web-bot-auth",
        },
        "jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==",
    ),
    "http-message-signatures-directory": (
        "binding",
        [
            Component('"@authority";req', "signature-agent.test"),
            Component('"content-digest"', "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"),
        ],
        {
            "created": 1735689600,
            "expires": 4889289600,
            "keyid": TEST_KEYID,
            "tag": "http-message-signatures-directory",
        },
        "l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==",
    ),
}


@for_each("name", EXAMPLES)
def test_a_published_example_has_the_published_signature(name: str) -> None:
    label, components, parameters, signature = EXAMPLES[name]
    assert sign(KEY, label, components, parameters).signature == f"{label}=:{signature}:"  # type: ignore[arg-type]


def test_a_key_is_named_by_its_thumbprint() -> None:
    assert (KEY.keyid, KEY.x) == (TEST_KEYID, TEST_X)
    assert KEY.jwk == {"crv": "Ed25519", "kty": "OKP", "x": TEST_X, "kid": TEST_KEYID, "use": "sig"}


def test_the_directory_is_signed_for_the_authority_at_which_sites_look_for_it() -> None:
    created = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    found = answer((KEY,), "https://bot.example", created)
    digest = found.headers["Content-Digest"]
    of_it = sign(
        KEY,
        "key1",
        [Component('"@authority";req', "bot.example"), Component('"content-digest"', digest)],
        {
            "created": created,
            "expires": created + 86_400,
            "alg": "ed25519",
            "tag": "http-message-signatures-directory",
            "keyid": TEST_KEYID,
        },
    )
    assert (found.headers["Signature-Input"], found.headers["Signature"]) == of_it
