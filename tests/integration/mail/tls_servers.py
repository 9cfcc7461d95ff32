"""Mail servers with TLS, with certificates of the test's own authority."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

HOST = "127.0.0.1"
AUTHORITY = trustme.CA()
STRANGER = trustme.CA()
GOOD = AUTHORITY.issue_cert(HOST)
ELSEWHERE = AUTHORITY.issue_cert("elsewhere.example")
EXPIRED = AUTHORITY.issue_cert(HOST, not_after=datetime.now(UTC) - timedelta(days=1))
UNSIGNED = STRANGER.issue_cert(HOST)


class Received:
    """What a server heard: e-mails, whether over TLS, and with which client certificate and login."""

    def __init__(self) -> None:
        self.emails: list[bytes] = []
        self.options: list[list[str]] = []
        self.recipients: list[str] = []
        self.tls: list[str | None] = []
        self.peers: list[Any] = []
        self.logins: list[Any] = []

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  aiosmtpd's name
        """Record the e-mail."""
        content: Any = envelope.content
        self.emails.append(content)
        self.options.append([str(option) for option in envelope.mail_options])
        self.recipients += [str(recipient) for recipient in envelope.rcpt_tos]
        tls: ssl.SSLObject | None = server.transport.get_extra_info("ssl_object") if server.transport else None
        self.tls.append(tls.version() if tls else None)
        self.peers.append(tls.getpeercert() if tls else None)
        return "250 OK"

    def log_in(self, _server: Any, _session: Any, _envelope: Any, mechanism: str, secret: Any) -> AuthResult:
        """Accept the user `shop` with the password `secret`."""
        self.logins.append((mechanism, secret.login, secret.password))
        return AuthResult(success=(secret.login, secret.password) == (b"shop", b"secret"), handled=False)


def context_of(certificate: trustme.LeafCert, *, asks_client: bool = False) -> ssl.SSLContext:
    """Return a server's context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if asks_client:
        context.verify_mode = ssl.CERT_REQUIRED
        AUTHORITY.configure_trust(context)
    return context


@contextmanager
def running(received: Received, context: ssl.SSLContext | None = None, **options: Any) -> Iterator[int]:
    """Run aiosmtpd's mail server with these options; yields its port. With a context it has TLS from the first byte."""
    started: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        server = await loop.create_server(
            lambda: SMTP(received, hostname=HOST, loop=loop, **options), HOST, 0, ssl=context
        )
        async with server:
            started.set_result((server.sockets[0].getsockname()[1], loop, stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    port, loop, stop = started.result(10)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()


def write_pem(folder: Path, certificate: trustme.LeafCert) -> tuple[str, str]:
    """Return the files of a certificate and of its key."""
    chain, key = folder / "client.pem", folder / "client.key"
    chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    return str(chain), str(key)
