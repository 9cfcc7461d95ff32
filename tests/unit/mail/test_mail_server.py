"""The mail server that Django's settings name: EMAIL_*, or MAILERS. How Django 6.1 has MAILERS is acted out here.

Real ones are checked in `tests/unit/conf/test_in_a_host.py`, where the installed Django has them.
"""

from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail.backends.locmem import EmailBackend as InMemory
from pytest_django import Settings

from tests.cases import for_each
from weir.workers.mail import checks
from weir.workers.mail.django_mail.backend import OutboxBackend
from weir.workers.mail.smtp import EmailBackend
from weir.workers.mail.transports import mail_server, relays

WEIRS = "weir.workers.mail.smtp.EmailBackend"
IN_MEMORY = "django.core.mail.backends.locmem.EmailBackend"


class Django61:
    """Settings that have MAILERS, and refuse to tell EMAIL_*."""

    def __init__(self, **mailers: dict[str, Any]) -> None:
        self.MAILERS = mailers

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"The {name} setting is not available when MAILERS is defined.")


@pytest.fixture
def mailers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Set MAILERS; what Django makes of each stands in here by its alias."""
    made: dict[str, Any] = {"default": InMemory(), "marketing": InMemory()}
    options = {"host": "mail.example", "username": "shop", "password": "s3cret", "use_tls": True, "timeout": 5}
    said = Django61(default={"BACKEND": WEIRS, "OPTIONS": options}, marketing={"BACKEND": IN_MEMORY})
    monkeypatch.setattr(mail, "mailers", made, raising=False)
    monkeypatch.setattr(mail_server, "settings", said)
    return made


@pytest.mark.usefixtures("mailers")
def test_mailers_name_it() -> None:
    """The port is the usual one of its encryption; whether there is a password is told, and not which."""
    server = mail_server.of_settings()
    assert (server.backend, server.host, server.port, server.user) == (WEIRS, "mail.example", 587, "shop")
    assert (server.has_password, server.use_tls, server.use_ssl, server.timeout_s) == (True, True, False, 5)
    assert relays.server_name() == "mail.example:587"
    assert "s3cret" not in repr(server)


def test_backends_are_those_of_mailers(mailers: dict[str, Any]) -> None:
    """The default one; the first of a class that a relay names; and a new one of a class that no mailer has."""
    assert mail_server.backend() is mailers["default"]
    assert mail_server.backend(IN_MEMORY) is mailers["marketing"]
    assert mail_server.backend("django.core.mail.backends.dummy.EmailBackend") not in mailers.values()


DJANGOS = "django.core.mail.backends.smtp.EmailBackend"


@pytest.mark.parametrize("named", [{"BACKEND": DJANGOS}, {}], ids=["named", "by default"])
def test_weirs_own_takes_the_place_of_djangos_for_smtp(
    named: dict[str, str], mailers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same options; of another mailer nothing changes."""
    options = {"host": "mail.example", "port": 2525, "username": "shop", "password": "s3cret"}
    said = Django61(default={**named, "OPTIONS": options}, marketing={"BACKEND": IN_MEMORY})
    monkeypatch.setattr(mail_server, "settings", said)
    made = mail_server.backend()
    assert isinstance(made, EmailBackend)
    assert (made.host, made.port, made.username, made.password) == tuple(options.values())
    assert mail_server.of_settings().backend == WEIRS
    assert mail_server.backend(IN_MEMORY) is mailers["marketing"]


def test_weirs_own_takes_the_place_of_djangos_in_email_settings(settings: Settings) -> None:
    """It is what a project has that names none."""
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = DJANGOS, "mail.example"
    made = mail_server.backend()
    assert isinstance(made, EmailBackend)
    assert made.host == "mail.example"
    assert not isinstance(mail.get_connection(), EmailBackend)


def test_email_settings_name_it_elsewhere(settings: Settings) -> None:
    settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = WEIRS, "mail.example", 2525
    server = mail_server.of_settings()
    assert (server.setting, server.host, server.port) == ("EMAIL_BACKEND", "mail.example", 2525)
    assert isinstance(mail_server.backend(), EmailBackend)


def test_there_is_a_time_out_without_one(settings: Settings) -> None:
    """Django's default is to wait for ever."""
    settings.EMAIL_TIMEOUT = None
    assert mail_server.of_settings().timeout_s == 30.0
    assert EmailBackend(host="mail.example").timeout == 30.0


class OwnOutbox(OutboxBackend):
    """A project's own, with a kind of its own."""


OUTBOX = "weir.OutboxBackend"


@for_each("path", [OUTBOX, "weir.workers.mail.django_mail.backend.OutboxBackend", f"{__name__}.OwnOutbox"])
def test_beside_the_outbox_email_settings_name_the_mail_server(path: str, settings: Settings) -> None:
    """One line puts Django's messages into the outbox; what Weir sends goes where it went before."""
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = path, "mail.example"
    server, made = mail_server.of_settings(), mail_server.backend()
    assert (server.backend, server.host) == (WEIRS, "mail.example")
    assert isinstance(made, EmailBackend)
    assert made.host == "mail.example"
    assert mail_server.names_outbox() == path.startswith("weir.")
    assert isinstance(mail.get_connection(), OutboxBackend)


@for_each("named", [{"BACKEND": DJANGOS}, {}])
def test_the_outbox_among_mailers_names_the_mailer_through_which_weir_sends(
    named: dict[str, str], mailers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weir's own backend takes its place if it is Django's for SMTP."""
    outbox = {"BACKEND": OUTBOX, "OPTIONS": {"relay": "smtp"}}
    options = {"host": "mail.example", "port": 2525}
    monkeypatch.setattr(mail_server, "settings", Django61(default=outbox, smtp={**named, "OPTIONS": options}))
    server, made = mail_server.of_settings(), mail_server.backend()
    assert (server.setting, server.backend, server.host, server.port) == (
        "MAILERS['smtp']",
        WEIRS,
        "mail.example",
        2525,
    )
    assert isinstance(made, EmailBackend)
    assert (made.host, made.port) == ("mail.example", 2525)
    assert mail_server.names_outbox()
    assert mail_server.outbox_fault() == ""
    monkeypatch.setattr(mail_server, "settings", Django61(default=outbox, smtp={"BACKEND": IN_MEMORY}))
    mailers["smtp"] = InMemory()
    assert mail_server.backend() is mailers["smtp"]


@for_each("options", [{}, {"relay": "nowhere"}, {"relay": "default"}])
@pytest.mark.usefixtures("mailers")
def test_an_outbox_that_names_no_mailer_is_refused(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A check says what to do, and no mailer sends to a host that nobody has named."""
    monkeypatch.setattr(mail_server, "settings", Django61(default={"BACKEND": OUTBOX, "OPTIONS": options}))
    with pytest.raises(ImproperlyConfigured, match="its option 'relay' names no mail server: add an entry to MAILERS"):
        mail_server.backend()
    (found,) = checks.outbox_is_not_its_own_relay()
    assert found.id == "weir.E040"
    assert found.msg == mail_server.outbox_fault()
