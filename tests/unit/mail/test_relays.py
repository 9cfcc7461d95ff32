"""The relays that settings name: what a URL means, and one sentence without a secret for one that means nothing."""

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from pydantic import SecretStr
from pytest_django import Settings

from project import environment
from project.environment import UnreadableVariables, redacting
from tests.cases import for_each
from weir.conf.texts import relay_urls
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.any_backend import AnyBackend
from weir.workers.mail.transports.resend import ResendTransport
from weir.workers.mail.transports.smtp import EmailBackend

DUMMY = "django.core.mail.backends.dummy.EmailBackend"
SECRET = "hunter2Secret"  # noqa: S105  a test's own


@pytest.fixture(autouse=True)
def _email_settings(settings: Settings) -> None:
    """Name another server, of which nothing may get into the relays."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "mail.shop.example", 2525
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD, settings.EMAIL_USE_TLS = "other", "other", True
    settings.WEIR_MAIL_RELAYS = []


def checked(check_id: str) -> list[str]:
    return [message.msg for message in run_checks() if message.id == check_id]


def test_without_relays_the_email_settings_name_one(settings: Settings) -> None:
    """As in any Django project."""
    [relay] = relays.relays()
    made = relay.new()
    assert isinstance(made, EmailBackend)
    assert (made.host, made.port, made.username, made.use_tls) == ("mail.shop.example", 2525, "other", True)
    assert (relay.name, relay.place, relay.key_lifetime) == ("mail.shop.example:2525", "mail.shop.example:2525", None)
    assert relay.is_smtp
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    [djangos] = relays.relays()
    assert djangos.is_smtp
    assert isinstance(djangos.new(), EmailBackend)
    settings.EMAIL_BACKEND = DUMMY
    assert isinstance(relays.relays()[0].new(), AnyBackend)
    assert not relays.relays()[0].is_smtp


@pytest.mark.parametrize(
    ("url", "name", "expected"),
    [
        ("smtp://relay.example", "relay.example:25", ("relay.example", 25, "", "", False, False)),
        ("smtp+starttls://Relay.Example", "relay.example:587", ("relay.example", 587, "", "", True, False)),
        ("smtps://u:p@relay.example/", "relay.example:465", ("relay.example", 465, "u", "p", False, True)),
        ("smtp://u%40x:p%2F%23%3A%2C%25%20%C3%A4@h:2", "h:2", ("h", 2, "u@x", "p/#:,% ä", False, False)),
        ("smtp://u:p:w@h:2", "h:2", ("h", 2, "u", "p:w", False, False)),
        ("smtp://[2001:DB8::1]:2", "[2001:db8::1]:2", ("2001:db8::1", 2, "", "", False, False)),
        ("smtp://[::1]", "[::1]:25", ("::1", 25, "", "", False, False)),
    ],
)
def test_a_url_of_smtp_says_all_of_a_server(settings: Settings, url: str, name: str, expected: tuple[Any, ...]) -> None:
    """And what it does not say is not taken from the EMAIL_* settings, which are another server's."""
    settings.WEIR_MAIL_RELAYS = [url]
    [relay] = relays.relays()
    made: Any = relay.new()
    assert isinstance(made, EmailBackend)
    assert (made.host, made.port, made.username, made.password, made.use_tls, made.use_ssl) == expected
    assert (relay.name, relay.place, relay.key_lifetime) == (name, name, EmailBackend.key_lifetime)


@pytest.mark.parametrize(
    ("url", "name", "place"),
    [
        ("resend://re_key@api.resend.com", "resend:api.resend.com", "api.resend.com:443"),
        ("resend://re_key@eu.resend.example:8443", "resend:eu.resend.example:8443", "eu.resend.example:8443"),
        ("resend+http://re_key@127.0.0.1:8080", "resend:127.0.0.1:8080", "127.0.0.1:8080"),
        ("resend+http://re_key@[::1]:8080", "resend:[::1]:8080", "[::1]:8080"),
        ("resend+http://re_key@localhost:8080", "resend:localhost:8080", "localhost:8080"),
    ],
)
def test_a_url_of_resend_says_where_and_with_which_key(settings: Settings, url: str, name: str, place: str) -> None:
    """The key settles what is unknown, for a day."""
    settings.WEIR_MAIL_RELAYS = [SecretStr(url)]
    [relay] = relays.relays()
    assert isinstance(relay.new(), ResendTransport)
    assert (relay.name, relay.place, relay.key_lifetime) == (name, place, ResendTransport.key_lifetime)


def test_a_url_of_django_names_any_backend(settings: Settings) -> None:
    """One that is a transport is used as it is."""
    settings.WEIR_MAIL_RELAYS = [f"django://{DUMMY}", "django://weir.workers.mail.smtp.EmailBackend"]
    first, second = relays.relays()
    assert isinstance(first.new(), AnyBackend)
    assert isinstance(second.new(), EmailBackend)
    assert (first.name, first.place) == (f"django:{DUMMY}", "")


def test_relays_are_used_in_their_order(settings: Settings) -> None:
    """Each by its own URL; what is shown of them holds no secret."""
    settings.WEIR_MAIL_RELAYS = relay_urls.split(
        f" resend://{SECRET}@api.resend.com,smtp://two.example\n smtp://u:{SECRET}@three.example:26 , "
    )
    assert [relay.name for relay in relays.relays()] == ["resend:api.resend.com", "two.example:25", "three.example:26"]
    assert [type(relay.new()) for relay in relays.relays()] == [ResendTransport, EmailBackend, EmailBackend]
    shown = repr(relays.relays()) + repr([relay_urls.parse(url) for url in relays.urls()])
    assert SECRET not in shown


MALFORMED = [
    (f"{SECRET}", "it must begin with smtp://"),
    (f"ftp://{SECRET}@host", "it must begin with smtp://"),
    (f"SMTP:{SECRET}", "it must begin with smtp://"),
    (f"smtp://user:{SECRET}", "host or port cannot be read"),
    (f"smtp://user:{SECRET}/x@host", "host or port cannot be read"),
    (f"smtp://user:{SECRET}#x@host", "host or port cannot be read"),
    (f"smtp://user:[{SECRET}@host", "host or port cannot be read"),
    (f"smtp://user:12/{SECRET}@host", "nothing may follow"),
    (f"smtp://user:{SECRET}%@host", "write / # ? @ : [ ] % and a comma as %2F"),
    (f"smtp://user:{SECRET}%zz@host", "write / # ? @ : [ ] % and a comma as %2F"),
    (f"smtp://user:{SECRET}%ff@host", "is not UTF-8"),
    (f"smtp://user:{SECRET}%0d%0a@host", "control character"),
    (f"smtp://user:{SECRET}@", "host or port cannot be read"),
    (f"smtp://user:{SECRET}@host:70000", "host or port cannot be read"),
    (f"smtp://user:{SECRET}@host:0", "host or port cannot be read"),
    (f"smtp://user:{SECRET}@[::zz]", "host or port cannot be read"),
    (f"smtp://user:{SECRET}@host/path", "nothing may follow"),
    (f"smtp://user:{SECRET}@host?timeout=3", "nothing may follow"),
    (f"smtp://{SECRET}@host", "a user name needs a password"),
    (f"smtp://:{SECRET}@host", "a password a user name"),
    ("resend://api.resend.com", "before its @ there must be the key"),
    (f"resend://user:{SECRET}@api.resend.com", "before its @ there must be the key"),
    (f"resend://{SECRET}%C3%A4@api.resend.com", "before its @ there must be the key"),
    (f"resend+http://{SECRET}@api.resend.com:80", "others would read the key"),
    (f"django://{SECRET}", "the dotted path"),
    (f"django://a.b@{SECRET}", "the dotted path"),
    (f"smtp://host:1,smtp://user:{SECRET}@host:1", "Relay 2 of WEIR_MAIL_RELAYS, host:1, is named before"),
]


@pytest.mark.parametrize(("text", "words"), MALFORMED)
def test_a_url_that_names_no_relay_is_refused_at_the_start(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In one sentence, which says what to write and nothing of the URL."""
    monkeypatch.setenv("WEIR_MAIL_RELAYS", text)
    with pytest.raises(UnreadableVariables) as raised:
        environment.read(tmp_path / "no.env")
    [sentence] = str(raised.value).splitlines()
    assert words in sentence
    assert sentence.startswith("Relay ")
    assert SECRET not in sentence


@pytest.mark.parametrize(("text", "words"), MALFORMED)
def test_a_url_that_names_no_relay_is_found_by_the_check(text: str, words: str, settings: Settings) -> None:
    """Also where a settings module has it."""
    settings.WEIR_MAIL_RELAYS = relay_urls.split(text)
    [sentence] = checked("weir.E030")
    assert words in sentence
    assert SECRET not in sentence


def test_a_django_backend_among_the_relays_is_checked_as_the_only_one_is(settings: Settings) -> None:
    """It must exist; one that cannot tell how far it came is told."""
    settings.EMAIL_BACKEND = "not.asked"
    settings.WEIR_MAIL_RELAYS = ["smtp://host", f"django://{DUMMY}", "django://no.such.Backend"]
    assert [message.partition(":")[0] for message in checked("weir.E011")] == ["WEIR_MAIL_RELAYS"]
    assert "no.such.Backend" in checked("weir.E011")[0]
    [warned] = checked("weir.W001")
    assert DUMMY in warned


@pytest.mark.parametrize(
    ("url", "warnings"),
    [
        (f"smtp://u:{SECRET}@relay.example:587", 1),
        (f"smtp://u:{SECRET}@192.0.2.1", 1),
        (f"smtp+starttls://u:{SECRET}@relay.example", 0),
        (f"smtps://u:{SECRET}@relay.example", 0),
        (f"smtp://u:{SECRET}@[::1]:2525", 0),
        (f"smtp://u:{SECRET}@localhost", 0),
        ("smtp://relay.example", 0),
        (f"resend://{SECRET}@relay.example", 0),
    ],
)
def test_a_password_of_a_relay_that_goes_in_the_clear_is_warned_about(
    settings: Settings, url: str, warnings: int
) -> None:
    """As one of the EMAIL_* settings is; the sentence names the relay, and no secret."""
    settings.WEIR_MAIL_RELAYS = ["smtp://first.example", url]
    found = checked("weir.W004")
    assert len(found) == warnings
    assert all("WEIR_MAIL_RELAYS" in sentence and SECRET not in sentence for sentence in found)


def test_what_is_read_from_the_environment_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither by the variable nor by a sentence of another that quotes it."""
    url = f"smtp://user:{SECRET}@host resend://{SECRET}2@api.resend.com"
    monkeypatch.setenv("WEIR_MAIL_RELAYS", url)
    read = environment.read(tmp_path / "no.env")
    assert " ".join(relay.get_secret_value() for relay in read.WEIR_MAIL_RELAYS) == url
    assert SECRET not in repr(read)
    assert SECRET not in redacting.without_secrets(f"{url} and {SECRET}2 and {SECRET}")


@for_each(
    ("text", "secrets"),
    [
        ("smtp://user:a%2Fb@host,resend://key@api.resend.com", ["a%2Fb", "a/b", "key"]),
        ("smtp://user@host", ["user"]),  # it may be the password, where the colon was forgotten
        ("smtp://user:p@w@host", ["p@w"]),
        ("smtp://u:%ff@host", ["%ff"]),
        ("smtp://host django://a.b", []),
    ],
)
def test_passwords_and_keys_are_known_as_secrets(text: str, secrets: list[str]) -> None:
    """As they are written and as they are meant, however malformed a URL is."""
    assert relay_urls.secrets(text) == secrets
