"""Logins: by password, and by an access token (XOAUTH2)."""

import base64
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from django.core import mail as django_mail
from django.core.mail.utils import DNS_NAME
from pytest_django import Settings

from tests.integration.mail import tls_servers
from tests.integration.mail.shipments import scripted_server
from tests.integration.mail.test_smtp_tls import submit
from tests.integration.mail.tls_servers import HOST, Received
from weir.workers.mail.smtp import EmailBackend
from weir.workers.mail.transports.base import RelayRefuses, Unreachable

HELLO = [b"220 mail.example\r\n", b"250-mail.example\r\n250 AUTH PLAIN XOAUTH2\r\n"]
WELCOME = b"235 2.7.0 Welcome\r\n"
SENT = [b"250 OK\r\n", b"250 OK\r\n", b"354 Go ahead\r\n", b"250 OK\r\n", b"221 Bye\r\n"]
CHALLENGE = base64.b64encode(json.dumps({"status": "401", "schemes": "bearer"}).encode())
PASSWORD = "secret"  # noqa: S105  of the test's own server
asked: list[tuple[str, str]] = []


def token(user: str, host: str) -> str:
    """Return a token, as an application's function does."""
    asked.append((user, host))
    return f"token-{len(asked)}"


def no_token(user: str, host: str) -> NoReturn:
    """Fail, as an application's function may."""
    raise KeyError(user, host)


@pytest.fixture(autouse=True)
def _by_token(settings: Settings) -> None:
    settings.EMAIL_HOST_USER = "shop@example.com"
    settings.WEIR_MAIL_XOAUTH2_TOKEN = f"{__name__}.token"
    asked.clear()


def said(line: bytes) -> str:
    """Return what a client's AUTH line says."""
    return base64.b64decode(line.split()[-1]).decode()


def test_a_login_by_token_asks_for_one_and_says_it(settings: Settings) -> None:
    """As Google and Microsoft describe it; with a new token for each connection, and no password."""
    settings.EMAIL_HOST_PASSWORD = PASSWORD
    with scripted_server(settings, *[[*HELLO, WELCOME, *SENT]] * 2) as heard:
        assert [submit(), submit()] == ["250 OK"] * 2
    logins = [line for line in heard if line.startswith(b"AUTH")]
    assert [line.split()[1] for line in logins] == [b"XOAUTH2"] * 2
    assert [said(line) for line in logins] == [f"user=shop@example.com\1auth=Bearer token-{n}\1\1" for n in (1, 2)]
    assert asked == [("shop@example.com", HOST)] * 2


def test_djangos_own_emails_log_in_by_token_too(settings: Settings) -> None:
    """They use the same backend."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    with scripted_server(settings, [*HELLO, WELCOME, *SENT]) as heard:
        assert django_mail.send_mail("Hello", "there", None, ["jo@customers.example"]) == 1
    assert any(line.startswith(b"AUTH XOAUTH2") for line in heard)


def test_a_token_that_is_refused_holds_all_emails_and_the_reason_is_told(settings: Settings) -> None:
    """The challenge with the reason is answered by an empty line; then comes the refusal."""
    refusing = [*HELLO, b"334 " + CHALLENGE + b"\r\n", b"535 5.7.8 Username and Password not accepted\r\n"]
    with scripted_server(settings, refusing) as heard, pytest.raises(RelayRefuses) as raised:
        submit()
    assert heard[-1] == b"\r\n"
    assert "535 5.7.8 Username and Password not accepted" in str(raised.value)
    assert '"status": "401"' in str(raised.value)
    assert "token-1" not in str(raised.value)


def test_a_login_that_fails_for_now_makes_the_server_unreachable(settings: Settings) -> None:
    """RFC 4954, 6: 454."""
    failing = [*HELLO, b"454 4.7.0 Temporary authentication failure\r\n"]
    with scripted_server(settings, failing), pytest.raises(Unreachable, match=r"454 4\.7\.0") as raised:
        submit()
    assert not isinstance(raised.value, RelayRefuses)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{__name__}.no_token", "gave no token: KeyError"),
        (f"{__name__}.nowhere", "gave no token: ImportError"),
        ("nowhere", "gave no token: ImportError"),
    ],
)
def test_a_function_that_gives_no_token_makes_the_server_unreachable(settings: Settings, path: str, words: str) -> None:
    """Whatever it raises: the sentence names the function. No connection is opened."""
    settings.WEIR_MAIL_XOAUTH2_TOKEN = path
    with pytest.raises(Unreachable, match=words) as raised:
        submit()
    assert path in str(raised.value)


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        ([HELLO[0], b"250-mail.example\r\n250 AUTH PLAIN LOGIN\r\n"], "offers no AUTH XOAUTH2"),
        ([*HELLO, b"334 A\r\n"], "base64"),
    ],
)
def test_a_server_without_xoauth2_gets_no_token(settings: Settings, connection: list[bytes], words: str) -> None:
    """A server whose challenge is nonsense is unreachable, too."""
    with scripted_server(settings, connection), pytest.raises(Unreachable, match=words):
        submit()


@contextmanager
def password_server(settings: Settings, received: Received) -> Iterator[None]:
    """Run a server that wants a login by password; the settings name it."""
    settings.WEIR_MAIL_XOAUTH2_TOKEN = ""
    settings.EMAIL_HOST_USER = "shop"
    with tls_servers.running(received, authenticator=received.log_in, auth_require_tls=False) as port:
        settings.EMAIL_HOST, settings.EMAIL_PORT = HOST, port
        yield


def test_a_password_is_said_and_a_wrong_one_holds_all_emails(settings: Settings) -> None:
    """As with Django's backend."""
    received = Received()
    with password_server(settings, received):
        settings.EMAIL_HOST_PASSWORD = PASSWORD
        assert submit() == "250 OK"
        settings.EMAIL_HOST_PASSWORD = PASSWORD[::-1]
        with pytest.raises(RelayRefuses, match="535"):
            submit()
    assert received.logins[0][1:] == (b"shop", PASSWORD.encode())
    assert len(received.emails) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN", "CRAM-MD5"])
def test_a_password_beyond_ascii_is_said_in_utf_8(settings: Settings, mechanism: str) -> None:
    """RFC 4616; so is the user's name."""
    user, password = "jörg", f"{PASSWORD}\N{SNOWMAN}"
    settings.WEIR_MAIL_XOAUTH2_TOKEN, settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "", user, password
    challenge = base64.b64encode(b"<1@mail.example>")
    hello = [HELLO[0], b"250-mail.example\r\n250 AUTH %b\r\n" % mechanism.encode()]
    asks = [] if mechanism == "PLAIN" else [b"334 %b\r\n" % challenge]
    with scripted_server(settings, [*hello, *asks, b"235 Hello\r\n", b"221 Bye\r\n"]) as heard:
        mailer = EmailBackend()
        mailer.connect()
        mailer.close()
    *_, last = [line for line in heard if line[:4] not in (b"ehlo", b"quit")]
    digest = hmac.new(password.encode(), b"<1@mail.example>", "md5").hexdigest()
    expected = {
        "PLAIN": f"\0{user}\0{password}",
        "LOGIN": password,
        "CRAM-MD5": f"{user} {digest}",
    }
    assert base64.b64decode(last.split()[-1]) == expected[mechanism].encode()


def test_no_sentence_has_a_character_of_a_password(settings: Settings) -> None:
    """Half a character, which a URL may contain, cannot be sent at all."""
    settings.WEIR_MAIL_XOAUTH2_TOKEN, settings.EMAIL_HOST_USER = "", "shop"
    settings.EMAIL_HOST_PASSWORD = "s\udcff3cret"  # noqa: S105  of the test's own server
    hello = [HELLO[0], b"250-mail.example\r\n250 AUTH PLAIN\r\n"]
    with scripted_server(settings, hello), pytest.raises(Unreachable) as raised:
        submit()
    assert str(raised.value) == "The user or the password has a character that cannot be sent (in UTF-8)."
    causes = (raised.value.__cause__, raised.value.__context__)
    assert not any(isinstance(cause, UnicodeError) for cause in causes)


def test_the_name_that_ehlo_says_is_that_of_the_settings(settings: Settings) -> None:
    """If they name none, it is that of the host, as Django finds it."""
    settings.WEIR_MAIL_XOAUTH2_TOKEN, settings.EMAIL_HOST_USER = "", ""
    for name, said in (("out.shop.example", b"out.shop.example"), ("", DNS_NAME.get_fqdn().encode())):
        settings.WEIR_MAIL_EHLO_NAME = name
        no_ehlo = [HELLO[0], b"502 What?\r\n", b"250 mail.example\r\n", b"221 Bye\r\n"]
        with scripted_server(settings, no_ehlo) as heard:
            mailer = EmailBackend()
            mailer.connect()
            mailer.close()
        assert [line.split() for line in heard[:2]] == [[b"ehlo", said], [b"helo", said]]
