"""SIZE, 8BITMIME and SMTPUTF8, with a mail server that offers them and one that does not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from tests.integration.mail import tls_servers
from tests.integration.mail.shipments import scripted_server
from tests.integration.mail.test_smtp_tls import EMAIL
from tests.integration.mail.tls_servers import HOST, Received
from weir.workers.mail.message import Message
from weir.workers.mail.smtp import EmailBackend
from weir.workers.mail.transports.base import CannotTake, Refused

UMLAUT = "\N{LATIN SMALL LETTER U WITH DIAERESIS}"
ABROAD = replace(
    EMAIL, recipient=f"b{UMLAUT}ro@example.com", content=f"Subject: Gr{UMLAUT}n\r\n\r\nGr{UMLAUT}n\r\n".encode()
)
EIGHT_BIT = replace(EMAIL, content=f"Subject: Hello\r\n\r\nGr{UMLAUT}n\r\n".encode())
LARGE = replace(EMAIL, content=EMAIL.content + b"x" * 1_000)


@contextmanager
def connected(settings: Settings, received: Received, **options: Any) -> Iterator[EmailBackend]:
    """Run a mail server with these options, and yield a connection to it."""
    with tls_servers.running(received, **options) as port:
        settings.EMAIL_HOST, settings.EMAIL_PORT = HOST, port
        mailer = EmailBackend()
        mailer.connect()
        try:
            yield mailer
        finally:
            mailer.close()


def refused(mailer: EmailBackend, message: Message) -> CannotTake:
    """Return why this server cannot take the e-mail; nothing of it was begun."""
    with pytest.raises(CannotTake) as raised:
        mailer.submit(message, lambda: pytest.fail("It was begun."))
    return raised.value


def test_addresses_and_headers_of_any_letters_arrive_as_they_were_written(settings: Settings) -> None:
    """If the server offers SMTPUTF8; an e-mail in ASCII over the same connection does not ask for it."""
    received = Received()
    with connected(settings, received, enable_SMTPUTF8=True, decode_data=False) as mailer:
        for message in (ABROAD, EMAIL, EIGHT_BIT):
            mailer.submit(message, lambda: None)
    assert received.recipients == [ABROAD.recipient, EMAIL.recipient, EIGHT_BIT.recipient]
    assert received.emails == [ABROAD.content, EMAIL.content, EIGHT_BIT.content]
    announced = [[option for option in options if not option.startswith("SIZE")] for options in received.options]
    assert announced == [["BODY=8BITMIME", "SMTPUTF8"], [], ["BODY=8BITMIME"]]


def test_a_server_without_smtputf8_is_not_asked(settings: Settings) -> None:
    """That one e-mail fails, with a sentence; the connection serves the next one."""
    received = Received()
    with connected(settings, received) as mailer:
        assert "does not offer SMTPUTF8" in str(refused(mailer, ABROAD))
        mailer.submit(EMAIL, lambda: None)
    assert received.emails == [EMAIL.content]


def test_a_server_that_refuses_these_letters_at_last_refuses_one_email(settings: Settings) -> None:
    """RFC 6531, 3.5: by 550 or 553 in reply to MAIL, which without such letters would be about us."""
    hello = [b"220 mail.example\r\n", b"250-mail.example\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"]
    with scripted_server(settings, [*hello, b"553 Not these\r\n", b"250 OK\r\n", b"221 Bye\r\n"]):
        mailer = EmailBackend()
        mailer.connect()
        with pytest.raises(Refused, match="553 Not these"):
            mailer.submit(ABROAD, lambda: pytest.fail("It was begun."))
        mailer.close()


def test_a_server_without_8bitmime_is_not_asked(settings: Settings) -> None:
    """Nor is it sent bytes that it may strip."""
    with scripted_server(settings, [b"220 mail.example\r\n", b"250 mail.example\r\n", b"221 Bye\r\n"]) as heard:
        mailer = EmailBackend()
        mailer.connect()
        assert "does not offer 8BITMIME" in str(refused(mailer, EIGHT_BIT))
        mailer.close()
    assert [line.split()[0].lower() for line in heard] == [b"ehlo", b"quit"]


def test_an_email_beyond_the_servers_limit_is_not_offered_to_it(settings: Settings) -> None:
    """The limit that it announces is compared before MAIL; the next e-mail is sent over the same connection."""
    received = Received()
    with connected(settings, received, data_size_limit=len(EMAIL.content)) as mailer:
        assert "takes 25 at most" in str(refused(mailer, LARGE))
        mailer.submit(EMAIL, lambda: None)
    assert received.emails == [EMAIL.content]
    assert received.options == [["SIZE=25"]]
