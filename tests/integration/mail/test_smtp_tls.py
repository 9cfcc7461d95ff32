"""TLS between us and a real mail server: whom we trust, and what is sent in the clear."""

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from pytest_django import Settings

from tests.integration.mail import tls_servers
from tests.integration.mail.shipments import scripted_server
from tests.integration.mail.tls_servers import AUTHORITY, ELSEWHERE, EXPIRED, GOOD, HOST, UNSIGNED, Received
from weir.workers.mail.message import Message
from weir.workers.mail.smtp import EmailBackend
from weir.workers.mail.transports.base import Unreachable

EMAIL = Message(
    from_address="shop@example.com",
    recipient="jo@example.com",
    content=b"Subject: Hello\r\n\r\nHello\r\n",
    idempotency_key="1",
)
WAYS = pytest.mark.parametrize("way", ["EMAIL_USE_TLS", "EMAIL_USE_SSL"])
PLAIN_TEXT = {b"EHLO", b"STARTTLS", b"QUIT"}


def submit() -> str:
    """Submit the e-mail over a connection of its own."""
    mailer = EmailBackend()
    mailer.connect()
    try:
        return mailer.submit(EMAIL, lambda: None).reply
    finally:
        mailer.close()


@contextmanager
def server(
    settings: Settings, way: str, certificate: trustme.LeafCert, *, asks_client: bool = False
) -> Iterator[Received]:
    """Run a server that asks for TLS in this way; the settings name it."""
    setattr(settings, way, True)
    context, received = tls_servers.context_of(certificate, asks_client=asks_client), Received()
    of_starttls = {"tls_context": context, "require_starttls": True}
    with tls_servers.running(received, **of_starttls if way == "EMAIL_USE_TLS" else {"context": context}) as port:
        settings.EMAIL_HOST, settings.EMAIL_PORT = HOST, port
        yield received


@pytest.fixture(autouse=True)
def authority(settings: Settings, tmp_path: Path) -> None:
    """Trust the test's own authority."""
    path = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    settings.WEIR_MAIL_CA_FILE = str(path)


@WAYS
def test_a_server_whose_certificate_is_good_gets_the_email(settings: Settings, way: str) -> None:
    """Over TLS, with a certificate by an authority that WEIR_MAIL_CA_FILE names."""
    with server(settings, way, GOOD) as received:
        assert submit() == "250 OK"
    assert received.emails == [EMAIL.content]
    assert received.tls in (["TLSv1.3"], ["TLSv1.2"])


@WAYS
@pytest.mark.parametrize(
    ("certificate", "cause"),
    [
        (ELSEWHERE, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        (EXPIRED, "certificate has expired"),
        (UNSIGNED, "unable to get local issuer certificate"),
    ],
)
def test_a_server_whose_certificate_is_not_good_gets_nothing(
    settings: Settings, way: str, certificate: trustme.LeafCert, cause: str
) -> None:
    """The sentence names the host, and what is wrong."""
    with server(settings, way, certificate) as received, pytest.raises(Unreachable) as raised:
        submit()
    assert str(raised.value).startswith(f"The certificate of {HOST} is not accepted: {cause}")
    assert received.emails == []


@WAYS
def test_an_authority_that_the_system_does_not_know_must_be_named(settings: Settings, way: str) -> None:
    """Without WEIR_MAIL_CA_FILE the system's authorities count."""
    settings.WEIR_MAIL_CA_FILE = ""
    with server(settings, way, GOOD), pytest.raises(Unreachable, match="unable to get local issuer certificate"):
        submit()


@WAYS
def test_a_server_that_wants_a_clients_certificate_gets_it(settings: Settings, way: str, tmp_path: Path) -> None:
    """And the server's own is verified all the same, which Django's backend cannot do."""
    client = AUTHORITY.issue_cert("shop.example")
    settings.EMAIL_SSL_CERTFILE, settings.EMAIL_SSL_KEYFILE = tls_servers.write_pem(tmp_path, client)
    with server(settings, way, GOOD, asks_client=True) as received:
        assert submit() == "250 OK"
    ((_, name),) = received.peers[0]["subjectAltName"]
    assert name == "shop.example"
    with server(settings, way, UNSIGNED, asks_client=True), pytest.raises(Unreachable, match="issuer"):
        submit()


def test_a_record_of_tls_that_is_no_word_keeps_no_email_back(settings: Settings) -> None:
    """Such as a new key, or here a question for a certificate, that comes between the go-ahead and the content."""
    settings.EMAIL_USE_SSL = True
    context, heard = tls_servers.context_of(GOOD), list[bytes]()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode, context.post_handshake_auth = ssl.CERT_OPTIONAL, True
    words = [b"220 mail.example\r\n", b"250 mail.example\r\n", b"250 OK\r\n", b"250 OK\r\n", b"354 Go ahead\r\n"]

    def serve() -> None:
        peer, _ = listener.accept()
        with suppress(OSError), context.wrap_socket(peer, server_side=True) as secret:
            for word in words:
                secret.sendall(word)
                if word != words[-1]:
                    secret.recv(1_000)
            secret.verify_client_post_handshake()
            secret.do_handshake()
            heard.append(secret.recv(1_000))
            secret.sendall(b"250 Accepted\r\n")

    def begin() -> None:
        assert select.select([mailer.connection.sock], [], [], 10)[0]

    with socket.create_server((HOST, 0)) as listener:
        settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        mailer = EmailBackend()
        mailer.ssl_context.post_handshake_auth = True
        mailer.connect()
        assert mailer.submit(EMAIL, begin).reply == "250 Accepted"
        mailer.close()
        thread.join(10)
        assert not thread.is_alive()
    assert heard == [EMAIL.content + b".\r\n"]


@pytest.mark.parametrize("name", ["EMAIL_SSL_CERTFILE", "EMAIL_SSL_KEYFILE", "WEIR_MAIL_CA_FILE"])
def test_a_file_that_is_not_there_makes_the_server_unreachable(settings: Settings, name: str) -> None:
    """No e-mail is to blame."""
    with server(settings, "EMAIL_USE_TLS", GOOD):
        setattr(settings, name, "/nowhere.pem")
        with pytest.raises(Unreachable, match="No such file"):
            submit()


def test_a_server_without_starttls_hears_no_secret_and_no_email(settings: Settings) -> None:
    """If EMAIL_USE_TLS asks for it, nothing is sent in the clear."""
    settings.EMAIL_USE_TLS = True
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "shop", "secret"
    hello = [b"220 mail.example\r\n", b"250-mail.example\r\n250 AUTH PLAIN LOGIN\r\n"]
    with scripted_server(settings, hello) as heard, pytest.raises(Unreachable, match="STARTTLS"):
        submit()
    assert {line.split()[0].upper() for line in heard} <= PLAIN_TEXT
    refusing = [hello[0], b"250-mail.example\r\n250 STARTTLS\r\n", b"454 4.7.0 TLS not available\r\n"]
    with scripted_server(settings, refusing) as heard, pytest.raises(Unreachable, match=r"454 4\.7\.0 TLS"):
        submit()
    assert {line.split()[0].upper() for line in heard} <= PLAIN_TEXT


FORGED = b"250-mail.example\r\n250 AUTH PLAIN\r\n235 Welcome\r\n"


@pytest.mark.parametrize("pause_s", [0.0, 0.2])
def test_what_follows_the_reply_to_starttls_in_the_clear_is_no_reply(settings: Settings, pause_s: float) -> None:
    """An attacker on the way may have put it there (RFC 3207, 6): the connection ends, and no secret is sent."""
    settings.EMAIL_USE_TLS = True
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "shop", "secret"
    heard: list[bytes] = []
    with _forging_server(settings, pause_s, heard), pytest.raises(Unreachable) as raised:
        submit()
    assert "forged" in str(raised.value) or "SSL" in str(raised.value)  # if it came with the reply, or after it
    if not pause_s:
        assert "forged" in str(raised.value)
    assert heard == []


@contextmanager
def _forging_server(settings: Settings, pause_s: float, heard: list[bytes]) -> Iterator[None]:
    """Run a server whose TLS is good, behind an attacker that adds replies in the clear to that of STARTTLS."""

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"220 mail.example\r\n")
            peer.recv(1_000)
            peer.sendall(b"250-mail.example\r\n250 STARTTLS\r\n")
            peer.recv(1_000)
            if pause_s:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.sendall(b"220 Go ahead\r\n")
                threading.Event().wait(pause_s)
                peer.sendall(FORGED)
            else:
                peer.sendall(b"220 Go ahead\r\n" + FORGED)
            with suppress(OSError), tls_servers.context_of(GOOD).wrap_socket(peer, server_side=True) as secret:
                heard.append(secret.recv(1_000))
                secret.sendall(b"250 mail.example\r\n")
                heard.append(secret.recv(1_000))

    with socket.create_server((HOST, 0)) as listener:
        settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(10)
        assert not thread.is_alive()


def test_a_server_that_speaks_no_tls_is_unreachable(settings: Settings) -> None:
    """If EMAIL_USE_SSL asks for TLS from the first byte."""
    settings.EMAIL_USE_SSL = True
    with scripted_server(settings, [b"220 mail.example\r\n"]), pytest.raises(Unreachable, match=r"SSL|reset"):
        submit()
