"""Resend's API, on real connections to a provider that behaves as documented: outcomes are what the provider did."""

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from email import message_from_bytes, policy
from email.headerregistry import Address
from email.message import EmailMessage
from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr
from pytest_django import Settings

from demo.fakes import mail_provider
from demo.fakes.mail_provider import MailProvider
from demo.fakes.provider_server import API_KEY, HOST
from tests.integration.mail.letters import letter
from weir.workers.mail.message import Message
from weir.workers.mail.phases import Phase
from weir.workers.mail.transports import http
from weir.workers.mail.transports.base import Accepted, BrokenOff, OutcomeUnknown, Refused, RelayRefuses, Unreachable
from weir.workers.mail.transports.resend import ResendTransport

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"id":"7"}'


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailProvider]:
    """Return a provider for all tests: addresses and keys are never the same."""
    with mail_provider.running(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture(autouse=True)
def _short_waits(settings: Settings) -> None:
    settings.EMAIL_TIMEOUT, settings.WEIR_MAIL_REPLY_TIMEOUT = 5.0, 0.5


@pytest.fixture
def transport(provider: MailProvider) -> Iterator[ResendTransport]:
    """Return a connection to the provider."""
    made = ResendTransport(HOST, provider.port, SecretStr(API_KEY), is_tls=False)
    yield made
    made.close()


def nothing() -> None:
    """Stand for `begin` in tests that do not look at it."""


def accepted(provider: MailProvider, message: Message) -> int:
    """Return how often the provider accepted the e-mail, by its own list."""
    events = provider.events()
    return sum(event.event == "accepted" and event.recipient == message.recipient for event in events)


def test_an_email_is_accepted_once_and_named(transport: ResendTransport, provider: MailProvider) -> None:
    """People can ask the provider about the e-mail by that name."""
    sent = letter()
    reply = transport.submit(sent, nothing)
    [event] = [event for event in provider.events() if event.recipient == sent.recipient]
    assert (event.event, event.id, event.key) == ("accepted", reply.provider_id, sent.idempotency_key)
    assert reply.reply == f"200 {event.id}"
    assert transport.key_lifetime == timedelta(hours=24)


def test_the_provider_gets_the_whole_email(transport: ResendTransport, provider: MailProvider) -> None:
    """Texts, headers and files; not the date, which is the provider's own."""
    plain = letter()
    parsed = message_from_bytes(plain.content, policy=policy.SMTP)
    assert isinstance(parsed, EmailMessage)
    parsed.get_payload()[1].add_related(b"png", "image", "png", cid="<logo>", filename="logo.png")  # type: ignore[index,union-attr]
    parsed.add_attachment(b"pdf", maintype="application", subtype="pdf", filename="bill.pdf")
    parsed.add_attachment(b"zip", maintype="application", subtype="zip", filename="bill.txt")
    parsed.add_attachment(b"{}", maintype="application", subtype="json")
    transport.submit(replace(plain, content=parsed.as_bytes()), nothing)
    [event] = [event for event in provider.events() if event.recipient == plain.recipient]
    files = event.request.pop("attachments")
    assert event.request == {
        "from": "The Shop <orders@shop.example>",
        "to": [plain.recipient],
        "reply_to": ["help@shop.example"],
        "subject": "Hello, №1",
        "text": "Hello Kim\n",
        "html": "<p>Hello Kim</p>\n",
        "headers": {
            "Message-ID": parsed["Message-ID"],
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": "<https://shop.example/u/1>",
        },
    }
    assert [base64.b64decode(file.pop("content")) for file in files] == [b"png", b"pdf", b"zip", b"{}"]
    assert files == [
        {"filename": "logo.png", "content_type": "image/png", "content_id": "logo"},
        {"filename": "bill.pdf", "content_type": "application/pdf"},
        {"filename": "bill.txt"},  # its type differs from what its name says: ResendTransport would drop the e-mail
        {"filename": "attachment.json", "content_type": "application/json"},
    ]


@pytest.mark.parametrize(
    ("word", "comes"),
    [
        ("error-accepted", 1),
        ("cut-accepted", 1),
        ("half-accepted", 1),
        ("garbage-accepted", 1),
        ("nonsense-accepted", 1),
        ("hang-accepted", 1),
        ("trickle-accepted", 1),
        ("error-unaccepted", 0),
        ("cut-unaccepted", 0),
    ],
)
def test_asking_again_settles_what_is_unknown(
    transport: ResendTransport, provider: MailProvider, word: str, comes: int
) -> None:
    """Whether it had been accepted or not: in the end it is accepted once, and named."""
    sent = letter(word)
    with pytest.raises(OutcomeUnknown) as raised:
        transport.submit(sent, nothing)
    assert raised.value.phase == Phase.AFTER_DOT
    assert accepted(provider, sent) == comes
    assert not transport.is_connected
    reply = transport.submit(sent, nothing)
    assert [event.id for event in provider.events() if event.recipient == sent.recipient and event.id] == (
        [reply.provider_id] * (1 + comes)  # the second time as an answer to the question
    )
    assert accepted(provider, sent) == 1


@pytest.mark.parametrize(
    ("word", "error", "words"),
    [
        ("refuse", Refused, "422 validation_error: The recipient is refused."),
        ("status-400", Refused, "400 said_so"),
        ("status-413", Refused, "413 said_so"),
        ("status-415", Refused, "415 said_so"),
        ("status-401", RelayRefuses, "401 said_so"),
        ("status-403", RelayRefuses, "403 said_so"),
        ("status-404", RelayRefuses, "404 said_so"),
        ("status-405", RelayRefuses, "405 said_so"),
        ("limit-9", RelayRefuses, "429 rate_limit_exceeded"),
        ("quota", RelayRefuses, "429 daily_quota_exceeded"),
        ("moved", RelayRefuses, "307"),
        ("status-408", OutcomeUnknown, "408 said_so"),
        ("status-502", OutcomeUnknown, "502 said_so"),
        ("status-600", OutcomeUnknown, "600 said_so"),
    ],
)
def test_each_reply_is_told_as_the_provider_documents_it(
    transport: ResendTransport, provider: MailProvider, word: str, error: type[Exception], words: str
) -> None:
    """A reply about us holds all e-mails, a reply about this e-mail ends it, and everything else is unknown."""
    sent = letter(word)
    with pytest.raises(error, match=words) as raised:
        transport.submit(sent, nothing)
    assert type(raised.value) is error
    assert getattr(raised.value, "is_permanent", True)
    assert accepted(provider, sent) == 0
    assert transport.is_connected == (error is Refused)  # a refusal leaves it ready for the next one


@pytest.mark.parametrize("status", [b"400 Bad Request", b"413 Payload Too Large"])
def test_what_another_than_the_provider_refuses_is_doubtful(status: bytes) -> None:
    """A proxy on the way, whose pages are HTML: it may refuse this e-mail, or all."""
    page = b"<html><title>" + status + b"</title></html>"
    answer = b"HTTP/1.1 " + status + b"\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page) + page
    with scripted([answer]) as (server, _), pytest.raises(RelayRefuses, match=status[:3].decode()) as raised:
        server.submit(letter(), nothing)
    assert (raised.value.is_doubtful, raised.value.knows_recipient) == (True, True)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            b"HTTP/1.1 413 Too large\r\nContent-Length: 22\r\n\r\n" + b'{"name":"x_too_large"}',
            Refused,
            "413 x_too_large",
        ),
        (b"HTTP/1.1 413 Too large\r\nConnection: close\r\n\r\n<html>", RelayRefuses, "413 <html>"),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", RelayRefuses, "401"),
        (b"HTTP/1.1 503 Not now\r\nContent-Length: 0\r\n\r\n", BrokenOff, "Connection reset|Broken pipe"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b'{"id":"7"}', BrokenOff, "Connection reset|Broken pipe"),
        (b"HTTP/1.1 4", BrokenOff, "Connection reset|Broken pipe"),
        (b"", BrokenOff, "Connection reset|Broken pipe"),
    ],
)
def test_a_refusal_that_comes_before_the_whole_was_read_counts(
    answer: bytes, error: type[Exception], words: str
) -> None:
    """The server closes the connection, which resets it while the rest is written. No part was accepted."""
    big = replace(letter(), content=b"From: orders@shop.example\r\n\r\n" + b"x" * 12_000_000)  # more than kernels keep

    def refuse(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(answer)

    with serving(refuse) as port:
        made = ResendTransport(HOST, port, SecretStr(API_KEY), is_tls=False)
        with pytest.raises(error, match=words) as raised:
            made.submit(big, nothing)
    assert type(raised.value) is error
    assert not made.is_connected


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Kim O'Hara-Łoś", "Kim O'Hara-Łoś <{}>"),
        ("", "{}"),
        ("Kim, the <b>", "{}"),  # it might be refused for its name
        ("Dr. Kim", "{}"),
    ],
)
def test_the_recipients_name_is_told(transport: ResendTransport, provider: MailProvider, name: str, told: str) -> None:
    """If it needs no quotes."""
    sent = letter()
    parsed = message_from_bytes(sent.content, policy=policy.SMTP)
    del parsed["To"]
    parsed["To"] = Address(name, addr_spec=sent.recipient)
    transport.submit(replace(sent, content=parsed.as_bytes()), nothing)
    [event] = [event for event in provider.events() if event.recipient == sent.recipient]
    assert event.request["to"] == [told.format(sent.recipient)]


def test_how_long_to_wait_is_told() -> None:
    """If the provider says so, with a number; an hour at most."""
    waits = {
        b"2": 2.0,
        b"86400": 3600.0,
        b"9" * 5000: 0.0,
        b"-1": 0.0,
        b"Mon, 23 Nov 2026 18:00:00 GMT": 0.0,
        "²".encode("latin-1"): 0.0,
    }
    for asked, wait_s in waits.items():
        answer = b"HTTP/1.1 429 Slow down\r\nRetry-After: " + asked + b"\r\nContent-Length: 0\r\n\r\n"
        with scripted([answer]) as (server, _), pytest.raises(RelayRefuses) as raised:
            server.submit(letter(), nothing)
        assert raised.value.retry_after_s == wait_s


def test_a_key_that_the_provider_does_not_know_is_named_nowhere(provider: MailProvider) -> None:
    """Neither in an error, although the provider repeats it, nor in what is printed of the transport."""
    key = "re_secret_of_ours"
    made = ResendTransport(HOST, provider.port, SecretStr(key), is_tls=False)
    with pytest.raises(RelayRefuses, match=r"403 invalid_api_key: API key \*\*\* is invalid") as raised:
        made.submit(letter(), nothing)
    assert key not in repr(raised.value) + repr(made) + repr(vars(made))


def test_an_email_that_is_still_in_flight_is_unknown(settings: Settings, provider: MailProvider) -> None:
    """The first attempt may be accepted in the end; so the e-mail must not leave by another relay."""
    sent = letter("late-2000")
    first, second = (ResendTransport(HOST, provider.port, SecretStr(API_KEY), is_tls=False) for _ in range(2))
    with pytest.raises(OutcomeUnknown, match="timed out"):
        first.submit(sent, nothing)
    with pytest.raises(OutcomeUnknown, match="409 concurrent_idempotent_requests"):
        second.submit(sent, nothing)
    settings.WEIR_MAIL_REPLY_TIMEOUT = 5.0
    deadline = time.monotonic() + 10
    while True:
        try:
            reply = second.submit(sent, nothing)
            break
        except OutcomeUnknown:
            assert time.monotonic() < deadline
    second.close()
    assert accepted(provider, sent) == 1
    assert reply.provider_id


def test_another_email_with_a_key_that_was_used_is_unknown_and_explained(
    transport: ResendTransport, provider: MailProvider
) -> None:
    """It must never happen, because what is sent is frozen; if it does, a person looks."""
    sent = letter()
    transport.submit(sent, nothing)
    with pytest.raises(OutcomeUnknown, match=r"invalid_idempotent_request.*another e-mail was sent with the same"):
        transport.submit(replace(letter(), idempotency_key=sent.idempotency_key), nothing)
    assert accepted(provider, sent) == 1


@pytest.mark.parametrize("key", ["x" * 257, "", "a\r\nX: y", "ä"])
def test_a_key_that_cannot_be_sent_is_refused_before_anything_is(transport: ResendTransport, key: str) -> None:
    """With a sentence; nothing has begun."""
    begun: list[bool] = []
    with pytest.raises(Refused, match="No idempotency key") as raised:
        transport.submit(replace(letter(), idempotency_key=key), lambda: begun.append(True))
    assert (begun, raised.value.phase) == ([], Phase.NOT_BEGUN)


def test_nothing_is_transmitted_when_begin_raises(transport: ResendTransport, provider: MailProvider) -> None:
    """And the connection is closed: a part of the request may have been written to it."""
    sent = letter()

    def lost() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        transport.submit(sent, lost)
    assert not transport.is_connected
    transport.submit(letter(), nothing)
    assert accepted(provider, sent) == 0


def test_who_cannot_be_reached_has_begun_nothing() -> None:
    """Neither at connect nor later."""
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    made = ResendTransport(HOST, port, SecretStr(API_KEY), is_tls=False)
    begun: list[bool] = []
    for attempt in (made.connect, lambda: made.submit(letter(), lambda: begun.append(True))):
        with pytest.raises(Unreachable, match="refused"):
            attempt()
    assert (begun, made.is_connected) == ([], False)


def test_a_server_that_cannot_prove_who_it_is_gets_no_key() -> None:
    """Nor does it get any request: the connection is closed before."""
    heard: list[bytes] = []

    def answer_in_plain_text(connection: socket.socket) -> None:
        heard.append(connection.recv(65_536))
        connection.sendall(b"220 hello\r\n")

    with serving(answer_in_plain_text) as port:
        made = ResendTransport(HOST, port, SecretStr(API_KEY), is_tls=True)
        with pytest.raises(Unreachable, match="SSL"):
            made.connect()
    assert API_KEY.encode() not in b"".join(heard)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[trustme.CA]:
    """Return a CA that this machine trusts during the test."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    http._verifying.cache_clear()
    yield made
    http._verifying.cache_clear()


def server_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    """Return the TLS of a server that has this certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(made)
    return made


def test_by_tls_one_connection_serves_many_emails(authority: trustme.CA) -> None:
    """Including the first: session tickets of the server are not the end of the connection."""
    with scripted([OK] * 3, server_of(authority.issue_cert(HOST))) as (server, heard):
        server.connect()
        sockets = {id(server._connection._http.sock)}
        for _ in range(3):
            assert server.submit(letter(), nothing).provider_id == "7"
            sockets.add(id(server._connection._http.sock))
    assert (len(heard), len(sockets)) == (3, 1)


@pytest.mark.parametrize("whose", ["a stranger's", "another host's"])
def test_a_certificate_that_is_not_the_hosts_lets_nothing_through(authority: trustme.CA, whose: str) -> None:
    """No key, and no e-mail."""
    ca, host = (trustme.CA(), HOST) if whose == "a stranger's" else (authority, "elsewhere.example")
    begun: list[bool] = []
    impostor = server_of(ca.issue_cert(host))
    with scripted([OK], impostor) as (server, heard), pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        server.submit(letter(), lambda: begun.append(True))
    assert (begun, heard) == ([], [])


def test_the_connection_is_kept_and_opened_again_where_the_provider_closed_it(
    transport: ResendTransport, provider: MailProvider
) -> None:
    """An e-mail for which a connection was closed meanwhile does not become unknown."""
    transport.connect()
    transport.submit(letter(), nothing)
    before = transport._connection._http.sock
    transport.submit(letter(), nothing)
    assert transport._connection._http.sock is before
    transport.submit(letter("farewell"), nothing)
    assert before.recv(1) == b""  # the end of the connection has arrived
    sent = letter()
    transport.submit(sent, nothing)
    assert transport._connection._http.sock is not before
    assert accepted(provider, sent) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\r\n\r\n",
        b"HTTP/1.1 200",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"id":"7"}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n[1, 2]",
        b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"id":7}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"id":""}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{"id":"7"}\r\n',
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + b" " * 3_000_000,
        b"HTTP/1.1 303 See other\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    ],
)
def test_an_answer_that_nobody_understands_is_unknown(answer: bytes) -> None:
    """Even if its beginning looks right."""
    with scripted([answer]) as (server, _), pytest.raises(OutcomeUnknown):
        server.submit(letter(), nothing)


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b'HTTP/1.1 201 Created\r\n\r\n{"id":"7"}',
        b'HTTP/1.0 200 OK\r\n\r\n{"id":"7"}',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{"id":"7"}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
)
def test_an_answer_may_come_in_any_form_of_http(answer: bytes) -> None:
    """With a length, in chunks, or until the end of the connection."""
    with scripted([answer]) as (server, _):
        assert server.submit(letter(), nothing).provider_id == "7"


def test_begin_is_called_once_after_the_connection_and_before_the_first_byte() -> None:
    """As the server sees it: it has a connection then, and has heard nothing."""
    with scripted([OK]) as (server, heard):
        server.connect()

        def begin() -> None:
            begun.append(len(heard))

        begun: list[int] = []
        assert server.submit(letter(), begin) == Accepted("200 7", "7")
    assert begun == [0]
    assert heard[0].startswith(b"POST /emails HTTP/1.1\r\n")


def test_a_request_that_cannot_be_written_as_a_whole_was_not_accepted(settings: Settings) -> None:
    """The server does not read: it cannot have what the kernel did not take."""
    settings.EMAIL_TIMEOUT = 0.5
    big = replace(letter(), content=b"From: orders@shop.example\r\n\r\n" + b"x" * 12_000_000)  # more than kernels keep
    stop = threading.Event()
    with serving(lambda _: stop.wait(20)) as port:
        made = ResendTransport(HOST, port, SecretStr(API_KEY), is_tls=False)
        with pytest.raises(BrokenOff) as raised:
            made.submit(big, nothing)
        stop.set()
    assert raised.value.phase == Phase.BEFORE_DOT
    assert not made.is_connected


@contextmanager
def serving(serve: Callable[[socket.socket], object], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve one connection in a thread; yield the port, and wait for the thread's end."""
    with socket.create_server((HOST, 0)) as listener:

        def work() -> None:
            with suppress(OSError):
                plain = listener.accept()[0]
                with tls.wrap_socket(plain, server_side=True) if tls else plain as connection:
                    serve(connection)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(20)


@contextmanager
def scripted(answers: list[bytes], tls: ssl.SSLContext | None = None) -> Iterator[tuple[ResendTransport, list[bytes]]]:
    """Yield a transport to a server that gives these answers, and what that server has heard; then it hangs up."""
    heard: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        for answer in answers:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65_536)
            head, _, body = request.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            while len(body) < length:
                body += connection.recv(65_536)
            heard.append(head)
            connection.sendall(answer)

    with serving(serve, tls) as port:
        made = ResendTransport(HOST, port, SecretStr(API_KEY), is_tls=tls is not None)
        yield made, heard
        made.close()


def test_a_provider_that_forgets_its_keys_accepts_again(tmp_path: Path) -> None:
    """So a key must be asked about only within its lifetime: the fake shows what would happen otherwise."""
    with mail_provider.running(tmp_path, key_lifetime_s=0.0) as forgetful:
        made = ResendTransport(HOST, forgetful.port, SecretStr(API_KEY), is_tls=False)
        sent = letter()
        assert made.submit(sent, nothing) != made.submit(sent, nothing)
        assert accepted(forgetful, sent) == 2
        made.close()
