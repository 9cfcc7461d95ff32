"""weir_history_failure_reason knows the texts that code writes into the error of a fetch that failed."""

import pytest
from django.db import connection

from tests.integration.fetcher.situations import TABLE, Becomes
from tests.unit.fetcher.test_outcomes import lost_with
from weir.workers.fetches.addresses import Allowed
from weir.workers.fetches.targets import InvalidTarget, parse_target

pytestmark = pytest.mark.django_db

REASONS = {
    "the site answered 429 (attempt 5 of 5)": "refused",
    "the site answered 503 (attempt 1 of 1)": "refused",
    "the site answered 403 (attempt 5 of 5)": "refused",
    "the site answered 529, which refuses more requests (attempt 5 of 5)": "refused",
    "the site answered 500": "server error",
    "the site answered 529 (attempt 5 of 5)": "server error",
    "no complete answer within 30 s (attempt 5 of 5)": "timeout",
    "no connection within 10 s": "timeout",
    "no connection within 10 s: its handshake of TLS did not end": "timeout",
    "the connection took 3.2 s to open, longer than its slot could wait": "timeout",
    "gaierror: [Errno -2] Name or service not known": "dns",
    "LookupTimedOut: no answer from DNS for a.example within 5 s": "dns",
    "the site's certificate is not valid: self-signed certificate": "tls",
    "TLS failed: WRONG_VERSION_NUMBER": "tls",
    "connection refused by 127.0.0.1 port 9 (ECONNREFUSED): no server listens there": "connection refused",
    "not connected to 192.0.2.9 port 443: No route to host": "connection",
    "not connected to 192.0.2.9 port 3128: the proxy opens no tunnel: it answers 502": "connection",
    "not connected to the site: its proxy a.example:3128 answers 407: it does not accept the secret A": "connection",
    "not connected to the site: WEIR_FETCH_PROXIES does not allow its proxy a.example:3128": "connection",
    "the connection was lost: Connection reset by peer": "connection",
    "the connection ended, and TLS does not say that the body is whole": "connection",
    "the site closed the connection without an answer": "connection",
    "the site closed the connection without an answer; it may have happened": "connection",
    "no complete answer within 30 s; it may have happened": "timeout",
    "the connection was given up before an answer came; it may have happened": "connection",
    "the site closed the connection in the middle of its answer": "connection",
    "the site closes connections, or speaks, before a request can be sent": "connection",
    "the site closes connections, or speaks, before a request can be sent: TLS failed: ALERT": "connection",
    "not an answer in HTTP: it begins with b'220 mail'": "bad answer",
    "the site answers 101, which answers no request": "bad answer",
    "the body is broken: Invalid character in chunk size": "bad answer",
    "the body comes in more than 500000 pieces": "bad answer",
    "the answer has more than 256 header lines": "too large",
    "the answer has more than 20 interim answers (1xx) before it": "too large",
    "the body takes more than 0.08 s of the processor to decompress": "bad answer",
    "the body was not decompressed in time: too many bodies take long": "bad answer",
    "the compressed body ends too early": "bad answer",
    "the body is larger than 10 bytes (WEIR_FETCH_MAX_BODY)": "too large",
    "the headers are larger than 65536 bytes together": "too large",
    "10.0.0.1 is private; WEIR_FETCH_ALLOW_NETS can allow its network": "forbidden",
    "port 22 is not allowed; WEIR_FETCH_ALLOW_PORTS can allow it": "forbidden",
    "robots.txt of https://a.example disallows it": "robots.txt",
    "robots.txt of https://a.example cannot be read: no connection within 10 s": "robots.txt",
    "redirected to another origin, to which no POST is sent: ask for https://a.example/ itself": "redirect",
    "more than 10 redirects, the last to https://a.example/": "redirect",
    "redirected to 'gaierror: ; WEIR_FETCH_ALLOW_NETS ': the URL has no host": "redirect",
    "unexpected: KeyError: 'gaierror: '": "internal",
    "unexpected: the storage did not take the body: OSError (attempt 5 of 5)": "internal",
    "unexpected: the disk did not take the body: OSError (attempt 5 of 5)": "internal",
    "the answer could not be judged: ValueError": "internal",
    "the database refused the result: DataError": "internal",
    "the secret SHOP is not known to this process: set WEIR_SECRET_SHOP": "internal",
    "the secret in the header X cannot be sent: it must be printable ASCII, on one line": "internal",
    "the file of the secret SHOP in WEIR_SECRETS_DIR cannot be read: PermissionError": "internal",
    "the secret SHOP does not describe an OAuth client: it needs client_id, a text": "internal",
    "the secret SHOP brings no access token: the server answered 401: invalid_client": "internal",
    "its effect 17 (weir.request order-17) is cancelled: Its fetch was cancelled.": "other",
    "its effect 17 is deleted (WEIR_EFFECT_RETENTION)": "other",
    "its site is not asked any more: it may have forgotten the Idempotency-Key": "other",
    "no answer came, and its effect is done: It returned.": "other",
    "what nobody has thought of": "other",
    "": "other",
}
NO_URLS = (
    "x", "ftp://a.example/", "http://u:p@a.example/", "http:///x", "http://a.example:0/", "http://[::1%25eth0]/",
    "http://127.1/", "http://a..b/", "http://a.example/\x01", "http://" + "a" * 5000, "http://[v1.x]/",
)  # fmt: skip


def reason_of(error: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT weir_history_failure_reason(%s)", [error])
        reason: str = cursor.fetchone()[0]
        return reason


@pytest.mark.parametrize("error", REASONS)
def test_each_text_has_its_class(error: str) -> None:
    """What a stranger may have put into a text changes nothing."""
    assert reason_of(error) == REASONS[error]


@pytest.mark.parametrize(
    "error",
    sorted(
        {
            situation.error
            for situations in TABLE.values()
            for situation in situations
            if situation.error.strip("…") and situation.becomes in {Becomes.FAILED, Becomes.AGAIN}
        }
    ),
)
def test_no_situation_is_other(error: str) -> None:
    """Each error of the table of situations, which a real fetcher makes, has a class of its own."""
    assert reason_of(error.replace("…", "x 1 ")) != "other"


@pytest.mark.parametrize("text", NO_URLS)
def test_what_is_no_url_is_told(text: str) -> None:
    """Fetches that fail when they are asked for are told from those that the settings forbid."""
    with pytest.raises(InvalidTarget) as refused:
        parse_target(text)
    assert reason_of(str(refused.value)) == "invalid URL"


def test_a_forbidden_address_is_told() -> None:
    """The settings could allow it."""
    with pytest.raises(InvalidTarget) as refused:
        parse_target("http://127.0.0.1/", Allowed(networks=(), ports=frozenset({80})))
    assert reason_of(str(refused.value)) == "forbidden"


def test_a_lost_fetch_is_told() -> None:
    """Its fetcher is to blame, or PostgreSQL."""
    lost = lost_with(attempts=2)
    assert reason_of(lost.error) == "fetcher lost"


def test_classes_are_few() -> None:
    """A label of a metric has a bounded number of values."""
    assert len({*REASONS.values(), "invalid URL", "fetcher lost"}) <= 16
