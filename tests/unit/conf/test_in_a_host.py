"""A project that has Weir's apps among its own: nothing of Weir's has to be set, and what is wrong is said."""

import re

import django
import pytest

from tests.unit.conf.host import run

SECRET = "s3cret"  # noqa: S105  what must never be seen


def test_nothing_has_to_be_set() -> None:
    """`check` has nothing to say of a project that knows no setting of Weir's."""
    checked = run("check", "--deploy", "--fail-level", "ERROR")
    assert (checked.returncode, "weir.E" in checked.stderr) == (0, False), checked.stderr


def test_every_setting_has_a_value() -> None:
    """Each can be read, and by its kind is what it was: a default of another type would break who reads it."""
    code = (
        "import django; django.setup()\n"
        "from django.test import override_settings\n"
        "from weir.conf import settings\n"
        "from weir.conf.declared import Settings\n"
        "for name in Settings.model_fields:\n"
        "    default = getattr(settings, name)\n"
        "    with override_settings(**{name: default}):\n"
        "        assert getattr(settings, name) == default, name\n"
    )
    assert run("-c", code).stderr == ""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("WEIR_USER_FOREIGN_KEY", "ture", "WEIR_USER_FOREIGN_KEY must be true or false, but is 'ture'."),
        ("WEIR_USER_KEY", "number", "WEIR_USER_KEY must be integer, uuid or text, but is 'number'."),
        ("WEIR_FETCH_TIMEOUT", "soon", "WEIR_FETCH_TIMEOUT must be a number of seconds"),
        ("WEIR_LOOKAHEAD", [3], "WEIR_LOOKAHEAD must be a number of seconds"),
        ("WEIR_METRICS_TOKEN", 42_4711, "WEIR_METRICS_TOKEN must be a text."),
        ("WEIR_MAIL_RELAYS", [f"smtp://{SECRET}@"], "Relay 1 of WEIR_MAIL_RELAYS is malformed"),
        ("WEIR_REDIS_URL", f"valkey://{SECRET}@cache.example", "WEIR_REDIS_URL is malformed"),
    ],
)
def test_a_wrong_setting_is_a_sentence(name: str, value: object, said: str) -> None:
    """Also of one by which models are made, which Django loads before it checks. No secret is in it."""
    checked = run("check", **{name: value})
    assert (checked.returncode, "Traceback" in checked.stderr) == (1, False), checked.stderr
    assert f"(weir.E030) {said}" in checked.stderr
    assert SECRET not in checked.stderr
    assert "424711" not in checked.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("WEIR_MAIL_RELAY", "Weir has no setting WEIR_MAIL_RELAY. Did you mean WEIR_MAIL_RELAYS?"),
        ("WEIR_LOG_FORMAT", "Weir has no setting WEIR_LOG_FORMAT."),
        ("MAIL_RELAY", ""),
    ],
)
def test_a_misspelt_setting_is_warned_of(name: str, said: str) -> None:
    """It would be left out in silence. One that standalone Weir alone has is none here; other names are not Weir's."""
    warned = run("check", **{name: "smtp://mail.example"}).stderr
    assert ("(weir.W032)" in warned, said in warned) == (bool(said), True), warned


def test_a_collector_without_the_extra_is_warned_of() -> None:
    """No span would be recorded, and only the log of a process would say so."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from django.core.management import execute_from_command_line\n"
        "execute_from_command_line(['django', 'check'])\n"
    )
    checked = run("-c", code, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert "(weir.W006)" in checked.stderr, checked


def test_django_shows_no_password() -> None:
    """Neither on the page about an error nor in the mail about it: both show all settings."""
    code = (
        "import django; django.setup()\n"
        "from django.views.debug import SafeExceptionReporterFilter\n"
        "print(SafeExceptionReporterFilter().get_safe_settings())\n"
        "from weir.conf import settings\n"
        "assert settings.WEIR_REDIS_URL.get_secret_value().startswith('redis://:')\n"
        "assert len(settings.WEIR_MAIL_RELAYS) == 2\n"
    )
    relays = [f"smtps://shop:{SECRET}@mail.example:465", f"resend://{SECRET}@api.resend.com"]
    shown = run(
        "-c",
        code,
        WEIR_MAIL_RELAYS=relays,
        WEIR_REDIS_URL=f"redis://:{SECRET}@cache.example",
        WEIR_METRICS_TOKEN=SECRET,
    )
    assert "WEIR_MAIL_RELAYS" in shown.stdout, shown.stderr
    assert (SECRET in shown.stdout, shown.returncode) == (False, 0), shown.stderr


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django has MAILERS from 6.1 on")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "mail.example", "timeout": 5}, ""),
        ({"host": "mail.example", "username": "shop", "password": SECRET}, "weir.W004"),
        ({"host": "mail.example", "use_tls": True, "use_ssl": True}, "weir.E011"),
        ({"host": "mail.example", "timeout": 0}, "weir.E007"),
        ({}, "weir.E011"),
    ],
)
def test_mailers_are_checked(options: dict[str, object], said: str) -> None:
    """Where Django refuses to read EMAIL_*, MAILERS["default"] is the mail server."""
    mailer = {"BACKEND": "weir.workers.mail.smtp.EmailBackend", "OPTIONS": options}
    checked = run("check", MAILERS={"default": mailer})
    assert "Traceback" not in checked.stderr
    found = set(re.findall(r"\((weir\.[EW]\d+)\)", checked.stderr)) - {"weir.W030"}  # it has no Celery app
    assert found == ({said} if said else set()), checked.stderr
    assert SECRET not in checked.stderr


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django has MAILERS from 6.1 on")
@pytest.mark.parametrize(("options", "said"), [({"relay": "smtp"}, set()), ({}, {"weir.E040"})])
def test_the_outbox_among_mailers_is_checked(options: dict[str, object], said: set[str]) -> None:
    """Django's messages are queued in it, and the mailer that it names is the mail server."""
    outbox = {"BACKEND": "weir.OutboxBackend", "OPTIONS": options}
    checked = run("check", MAILERS={"default": outbox, "smtp": {"OPTIONS": {"host": "mail.example"}}})
    found = set(re.findall(r"\((weir\.[EW]\d+)\)", checked.stderr)) - {"weir.W030"}
    assert found == said, checked.stderr
