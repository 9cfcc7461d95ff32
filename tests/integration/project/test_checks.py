"""Settings that cannot work are said when a process starts, each with its id, its name and what to write."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from annotated_types import Gt
from django.core.checks import CheckMessage, run_checks
from pytest_django import Settings

from project.environment.variables import Variables
from tests.signing import TEST_KEY, new_key
from weir.workers import tracing
from weir.workers.history.rollup import needed_s

POSITIVE = [name for name, field in Variables.model_fields.items() if Gt(0) in field.metadata]


@pytest.fixture(autouse=True)
def _backend_as_it_comes(settings: Settings) -> None:
    """Name the backend that settings name: Django's test runner puts another in its place."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"


def weir_messages() -> list[CheckMessage]:
    """Return what Weir's checks say, without what a project has silenced."""
    return [found for found in run_checks() if str(found.id).startswith("weir.") and not found.is_silenced()]


def test_the_settings_as_they_come_are_in_order() -> None:
    """A fresh checkout has nothing to complain about."""
    assert weir_messages() == []


@pytest.mark.parametrize(
    ("name", "value", "check", "words"),
    [
        ("WEIR_DEFAULT_RATE", "often", "weir.E030", "such as 3/s"),
        ("WEIR_DEFAULT_RATE", "5000/s", "weir.E030", "1000/s"),
        ("WEIR_DEFAULT_RATE", 5, "weir.E030", "but is 5"),
        ("WEIR_FETCH_ALLOW_NETS", ["10.0.0.1/8"], "weir.E030", "10.0.0.1/8"),
        ("WEIR_FETCH_ALLOW_NETS", ["127.0.0.0/8", "intranet"], "weir.E030", "intranet"),
        ("WEIR_FETCH_ALLOW_NETS", {"10.0.0.0/8": True}, "weir.E030", "networks"),
        ("WEIR_FETCH_ALLOW_PORTS", ["http"], "weir.E030", "ports and ranges of ports"),
        ("WEIR_FETCH_ALLOW_PORTS", ["90-80"], "weir.E030", "90-80"),
        ("WEIR_OPS_READ_ONLY", "ture", "weir.E030", "must be true or false, but is 'ture'"),
        ("WEIR_USER_KEY", "number", "weir.E030", "integer, uuid or text"),
        ("WEIR_UNREAD_CAP", True, "weir.E030", "a whole number"),
        ("WEIR_LIVENESS_DIR", 5, "weir.E030", "must be a text, but is 5"),
        ("WEIR_MAIL_RELAYS", [5], "weir.E030", "must be a list of URLs"),
        ("WEIR_MAIL_ROUTES", {"a": 5}, "weir.E030", "malformed"),
        ("WEIR_REDIS_URL", "cache.example", "weir.E030", "malformed"),
        ("REDIS_URL", "redis://cache.example/zero", "weir.E030", "must be a number"),
        ("WEIR_LOOKAHEAD", 0.9, "weir.E004", "0.9"),
        ("WEIR_LOOKAHEAD", -1.0, "weir.E030", "but is -1.0"),
        ("WEIR_LOOKAHEAD", math.nan, "weir.E030", "but is nan"),
        ("WEIR_LOOKAHEAD", 60.1, "weir.E004", "at most 60"),
        ("WEIR_FETCH_TIMEOUT", 0.0, "weir.E030", "above 0"),
        ("WEIR_FETCH_CONNECT_TIMEOUT", 0.0, "weir.E030", "above 0"),
        ("WEIR_FETCH_DNS_TIMEOUT", 0.0, "weir.E030", "above 0"),
        ("WEIR_FETCH_MAX_BODY", 0, "weir.E030", "above 0"),
        ("WEIR_FETCH_MAX_IN_FLIGHT", 0, "weir.E030", "above 0"),
        ("WEIR_SLOT_RETENTION", 0.0, "weir.E030", "above 0"),
        ("WEIR_SITE_RETENTION", 0.0, "weir.E030", "above 0"),
        ("WEIR_FETCH_RETENTION", -5.0, "weir.E030", "but is -5.0"),
        ("WEIR_FETCH_RETENTION", math.nan, "weir.E030", "but is nan"),
        ("WEIR_FETCH_TIMEOUT", math.inf, "weir.E030", "but is inf"),
        ("WEIR_RETRY_AFTER_MAX", 0.0, "weir.E030", "above 0"),
        ("WEIR_RETRY_AFTER_MAX", -1.0, "weir.E030", "but is -1.0"),
        ("WEIR_NOTIFICATION_RETENTION", 0.0, "weir.E030", "above 0"),
        ("WEIR_NOTIFICATION_RETENTION", -1.0, "weir.E030", "but is -1.0"),
        ("WEIR_NOTIFICATION_RETENTION", math.nan, "weir.E030", "but is nan"),
        ("WEIR_MAIL_RATE", "often", "weir.E030", "such as 3/s"),
        ("WEIR_MAIL_RATE", "5000/s", "weir.E030", "1000/s"),
        ("WEIR_MAIL_LEASE", 0.0, "weir.E030", "above 0"),
        ("WEIR_MAIL_REPLY_TIMEOUT", -1.0, "weir.E030", "but is -1.0"),
        ("WEIR_MAIL_UNKNOWN_AFTER", math.nan, "weir.E030", "but is nan"),
        ("WEIR_MAIL_LEASE", math.inf, "weir.E030", "but is inf"),
        ("EMAIL_TIMEOUT", 0.0, "weir.E007", "greater than 0"),
        ("WEIR_MAIL_CONTENT_RETENTION", 0.0, "weir.E030", "above 0"),
        ("WEIR_MAIL_MAX_ATTEMPTS", 0, "weir.E030", "above 0"),
        ("WEIR_MAIL_UNKNOWN_AFTER", 1_200.0, "weir.E008", "= 1200 (seconds), but is 1200"),
        ("WEIR_MAIL_COMMAND_TIMEOUT", 0.0, "weir.E030", "above 0"),
        ("WEIR_MAIL_COMMAND_TIMEOUT", 600.0, "weir.E008", "= 1800 (seconds), but is 1800"),
        ("WEIR_MAIL_XOAUTH2_TOKEN", "token", "weir.E016", "cannot be used"),
        ("WEIR_MAIL_XOAUTH2_TOKEN", "weir.workers.mail.smtp.token", "weir.E016", "token"),
        ("WEIR_MAIL_CA_FILE", "/nowhere.pem", "weir.E016", "No such file"),
        ("WEIR_MAIL_CA_FILE", __file__, "weir.E016", "no certificate"),
        ("WEIR_MAIL_REPLY_TIMEOUT", 3_600.0, "weir.E008", "= 4200 (seconds)"),
        ("DEFAULT_FROM_EMAIL", "the shop", "weir.E009", "not an e-mail address"),
        ("DEFAULT_FROM_EMAIL", "shop@example.com\nBcc: all@example.com", "weir.E009", "line break"),
        ("DEFAULT_FROM_EMAIL", "shop@\N{SNOWMAN}.example", "weir.E009", "Codepoint"),
        ("DEFAULT_FROM_EMAIL", "j\N{LATIN SMALL LETTER O WITH DIAERESIS}rg@shop.example", "weir.E009", "beyond ASCII"),
        ("DEFAULT_FROM_EMAIL", "=?utf-8?q?Shop=0D=0ABcc:?= <a@shop.example>", "weir.E009", "control character"),
        ("WEIR_FETCH_USER_AGENT", "ShopBot/1.0\r\nX-Other: 1", "weir.E013", r"1.0\r\nX"),
        ("WEIR_FETCH_USER_AGENT", "ShopBot/1.0\x7f", "weir.E013", r"\x7f"),
        ("WEIR_FETCH_USER_AGENT", "B\N{LATIN SMALL LETTER U WITH DIAERESIS}cherBot/1.0", "weir.E013", r"\xfc"),
        ("EMAIL_BACKEND", "smtp", "weir.E011", "cannot be used"),
        ("EMAIL_BACKEND", "weir.workers.mail.smtp.NoBackend", "weir.E011", "NoBackend"),
        ("EMAIL_BACKEND", "no.such.module.EmailBackend", "weir.E011", "No module named 'no'"),
    ],
)
def test_a_setting_that_cannot_work_is_an_error(
    name: str, value: Any, check: str, words: str, settings: Settings
) -> None:
    """The error has its id, names the setting, and says what is wrong with its value."""
    setattr(settings, name, value)
    [message] = weir_messages()
    assert message.id == check
    assert name in message.msg
    assert words in message.msg


@pytest.mark.parametrize("name", POSITIVE)
def test_what_no_variable_can_say_is_no_setting_either(name: str, settings: Settings) -> None:
    """A zero that is refused in the environment is an error where another settings module has it."""
    setattr(settings, name, 0)
    [message] = weir_messages()
    assert f"{name} must be" in message.msg


@pytest.mark.parametrize("name", ["WEIR_SLOT_RETENTION", "WEIR_FETCH_RETENTION", "WEIR_HISTORY_RETENTION"])
def test_what_is_deleted_before_it_is_counted_is_warned_of(name: str, settings: Settings) -> None:
    """A minute is counted when each outcome of it is known: the warning says how long it has to be kept."""
    setattr(settings, name, math.ceil(needed_s()))
    assert weir_messages() == []
    setattr(settings, name, 60.0)
    [message] = weir_messages()
    assert (message.id, message.msg.startswith(f"{name} is 60 (seconds): ")) == ("weir.W005", True)
    assert message.hint == f"Write {math.ceil(needed_s())} or more, or lower WEIR_FETCH_TIMEOUT."
    setattr(settings, name, math.ceil(needed_s()))
    settings.WEIR_FETCH_TIMEOUT = 90.0
    assert [message.id for message in weir_messages()] == ["weir.W005"]


def test_a_collector_without_what_sends_to_it_is_warned_of(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning says what to install; without a collector nothing is missing."""
    monkeypatch.setitem(sys.modules, "weir.workers.tracing.recorder", None)  # as if its imports failed
    monkeypatch.delattr(tracing, "recorder", raising=False)
    assert weir_messages() == []
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:4318"
    [message] = weir_messages()
    assert (message.id, message.hint) == ("weir.W006", 'Install the extra: pip install "django-weir[otel]"')
    assert message.msg.startswith("OTEL_EXPORTER_OTLP_ENDPOINT is set, but no span is recorded: ")


def test_a_collector_that_can_be_sent_to_is_in_order(settings: Settings) -> None:
    """The extra is installed where tests run."""
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:4318"
    assert weir_messages() == []


def test_every_wrong_setting_is_said_at_once(settings: Settings) -> None:
    """Five mistakes are learnt of by one start, not by five."""
    settings.WEIR_DEFAULT_RATE, settings.WEIR_FETCH_ALLOW_NETS, settings.WEIR_LOOKAHEAD = "often", ["x"], 0
    settings.WEIR_FETCH_TIMEOUT = settings.WEIR_NOTIFICATION_RETENTION = 0
    settings.WEIR_MAIL_RATE, settings.WEIR_MAIL_LEASE, settings.DEFAULT_FROM_EMAIL = "often", -1.0, ""
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = True
    settings.EMAIL_BACKEND, settings.WEIR_FETCH_USER_AGENT, settings.WEIR_FETCH_ALLOW_PORTS = "", "a\nb", ["0"]
    assert sorted(str(message.id) for message in weir_messages()) == [
        "weir.E004", "weir.E009", "weir.E010", "weir.E011", "weir.E013", *["weir.E030"] * 7,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [[], [""], ["127.0.0.0/8", " fd00::/8 "]])
def test_networks_that_can_be_read_are_in_order(value: list[str], settings: Settings) -> None:
    """No networks, blank ones and spaces are no mistakes."""
    settings.WEIR_FETCH_ALLOW_NETS = value
    assert weir_messages() == []


@pytest.mark.parametrize("look_ahead", [1.0, 60.0])
def test_a_look_ahead_at_either_end_is_in_order(look_ahead: float, settings: Settings) -> None:
    """The bounds themselves are allowed."""
    settings.WEIR_LOOKAHEAD = look_ahead
    assert weir_messages() == []


def test_a_rate_of_the_mail_server_that_can_be_read_is_in_order(settings: Settings) -> None:
    """One that is set is read; none is no mistake."""
    settings.WEIR_MAIL_RATE = "10/s"
    assert weir_messages() == []


def test_unknown_begins_after_everything_that_a_transmission_can_take(settings: Settings) -> None:
    """The hint says how many seconds that is with these time-outs; more than that is in order."""
    settings.WEIR_MAIL_COMMAND_TIMEOUT, settings.WEIR_MAIL_REPLY_TIMEOUT = 10.0, 30.0
    settings.WEIR_MAIL_UNKNOWN_AFTER = 50.0
    [message] = weir_messages()
    assert message.hint == "Set it to more than 50: else an e-mail that is still being sent is called unknown."
    settings.WEIR_MAIL_UNKNOWN_AFTER = 50.1
    assert weir_messages() == []


def test_one_way_of_encryption_is_enough(settings: Settings) -> None:
    """Either is in order; with both, Django's backend refuses to be made, so that is said before."""
    settings.EMAIL_USE_TLS = True
    assert weir_messages() == []
    settings.EMAIL_USE_SSL = True
    [message] = weir_messages()
    assert (message.id, message.is_serious()) == ("weir.E010", True)
    settings.EMAIL_USE_TLS = False
    assert weir_messages() == []


def test_djangos_backend_for_smtp_is_in_order(settings: Settings) -> None:
    """It is the default of every project: Weir's own takes its place for Weir's e-mails."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    assert weir_messages() == []


@pytest.mark.parametrize("backend", ["console", "dummy"])
def test_a_backend_that_cannot_tell_its_phase_is_warned_about(backend: str, settings: Settings) -> None:
    """Django's own work, but what they fail to send waits for a person; the hint names the one that does better."""
    settings.EMAIL_BACKEND = f"django.core.mail.backends.{backend}.EmailBackend"
    [message] = weir_messages()
    assert (message.id, message.is_serious()) == ("weir.W001", False)
    assert settings.EMAIL_BACKEND in message.msg
    assert message.hint == "For SMTP: weir.workers.mail.smtp.EmailBackend."


def test_the_backend_of_djangos_test_runner_is_known(settings: Settings) -> None:
    """Each test run would warn of what no setting of the project says."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert weir_messages() == []


@pytest.mark.parametrize(
    ("user_agent", "complaints"), [("Weir/0.1", 1), ("ShopBot", 1), ("ShopBot/1.0 (+https://shop.example/bot)", 0)]
)
def test_a_deployment_says_whom_sites_can_turn_to(user_agent: str, complaints: int, settings: Settings) -> None:
    """A User-Agent without a contact is warned about, where it counts: in `check --deploy`."""
    settings.WEIR_FETCH_USER_AGENT = user_agent
    assert weir_messages() == []
    found = [message for message in run_checks(include_deployment_checks=True) if message.id == "weir.W002"]
    assert len(found) == complaints
    for message in found:
        assert (message.is_serious(), repr(user_agent) in message.msg) == (False, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("EMAIL_HOST_PASSWORD", "secret"), ("WEIR_MAIL_XOAUTH2_TOKEN", "weir.workers.mail.smtp.EmailBackend")],
)
def test_a_secret_that_goes_over_a_network_in_the_clear_is_warned_about(
    name: str, value: str, settings: Settings
) -> None:
    """A password or a token; not where there is TLS, nor on this machine, nor without a login."""
    settings.EMAIL_HOST, settings.EMAIL_HOST_USER = "mail.example.com", "shop"
    assert weir_messages() == []
    setattr(settings, name, value)
    [message] = weir_messages()
    assert (message.id, message.is_serious()) == ("weir.W004", False)
    assert "mail.example.com in the clear" in message.msg
    for way in ("EMAIL_USE_TLS", "EMAIL_USE_SSL"):
        setattr(settings, way, True)
        assert weir_messages() == []
        setattr(settings, way, False)
    for host in ("localhost", "127.0.0.2", "::1", "[::1]", "Mail.Localhost."):
        settings.EMAIL_HOST = host
        assert weir_messages() == []
    settings.EMAIL_HOST, settings.EMAIL_HOST_USER = "192.0.2.1", ""
    assert weir_messages() == []


def test_a_backend_whose_module_breaks_is_an_error(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever importing it raises is said, and breaks no check."""
    (tmp_path / "broken_backend.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    settings.EMAIL_BACKEND = "broken_backend.EmailBackend"
    [message] = weir_messages()
    assert message.id == "weir.E011"
    assert message.msg.endswith("RuntimeError: no licence")


def test_a_sender_with_a_name_or_a_domain_in_any_script_is_in_order(settings: Settings) -> None:
    """What e-mails can be sent from is accepted."""
    for sender in ("The shop <shop@example.com>", "shop@b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example"):
        settings.DEFAULT_FROM_EMAIL = sender
        assert weir_messages() == []


@pytest.mark.parametrize(
    ("networks", "wide"),
    [
        ([], []),
        (["10.0.0.5", "10.0.0.0/24", "fd00:5::/64"], []),
        (["10.0.0.0/23", "10.0.0.5", "fd00::/8"], ["10.0.0.0/23", "fd00::/8"]),
        (["::ffff:10.0.0.0/119", "::ffff:10.0.0.0/120"], ["::ffff:10.0.0.0/119"]),
    ],
)
def test_networks_of_very_many_proxies_are_told(settings: Settings, networks: list[str], wide: list[str]) -> None:
    """weir.W008: each host of such a network is believed."""
    settings.WEIR_TLS_PROXIES = networks
    found = [message for message in run_checks(include_deployment_checks=True) if message.id == "weir.W008"]
    assert [message.msg.split()[2].rstrip(",") for message in found] == wide


def test_requests_that_cannot_be_signed_are_told(settings: Settings) -> None:
    """A key that another process may have is a warning; what cannot work anywhere is an error."""
    settings.WEIR_SECRETS = {"NEW": new_key(), "TEST": TEST_KEY, "TEXT": "canary-17"}
    told = {}
    for agent, keys in (
        ("", ["NEW"]),
        ("https://bot.example", []),
        ("https://bot.example", ["NEW"]),
        ("https://bot.example", ["TEST", "NEW", "TEXT", "LOST"]),
        ("http://bot.example", ["NEW"]),
        ("https://bot.example/page", ["NEW"]),
        ("https://bot.example", ["../NEW"]),
    ):
        settings.WEIR_SIGNATURE_AGENT, settings.WEIR_SIGNATURE_KEYS = agent, keys
        found = weir_messages()
        told[agent, *keys] = [str(message.id) for message in found]
        assert "canary" not in str(found)
    assert [*told.values()] == [
        ["weir.E037"],
        ["weir.E037"],
        [],
        ["weir.E037", "weir.E037", "weir.W037"],
        ["weir.E030"],
        ["weir.E030"],
        ["weir.E030"],
    ]


def test_a_storage_that_is_none_or_that_may_be_public_is_told(settings: Settings) -> None:
    """Bodies are a stranger's; the project's own storages are there to be served."""
    told = {}
    for alias in ("", "bodies", "lost", "default", "staticfiles"):
        settings.STORAGES = {**settings.STORAGES, "bodies": settings.STORAGES["default"]}
        settings.WEIR_FETCH_STORAGE = alias
        told[alias] = [str(message.id) for message in weir_messages()]
    assert told == {"": [], "bodies": [], "lost": ["weir.E038"], "default": ["weir.W039"], "staticfiles": ["weir.W039"]}


def test_bodies_that_postgresql_cannot_keep_are_told(settings: Settings) -> None:
    """It would end the connection, as if it were away. A storage takes those from WEIR_FETCH_STORAGE_FROM on."""
    settings.STORAGES = {**settings.STORAGES, "bodies": settings.STORAGES["default"]}
    told = []
    for alias, most, stored_from in (
        ("", 2**28, 2**40),
        ("", 2**28 + 1, 1),
        ("bodies", 2**40, 2**28),
        ("bodies", 2**40, 2**30),
    ):
        settings.WEIR_FETCH_STORAGE, settings.WEIR_FETCH_MAX_BODY = alias, most
        settings.WEIR_FETCH_STORAGE_FROM = stored_from
        told.append([(str(message.id), message.msg.split()[0]) for message in weir_messages()])
    assert told == [[], [("weir.E038", "WEIR_FETCH_MAX_BODY")], [], [("weir.E038", "WEIR_FETCH_STORAGE_FROM")]]
