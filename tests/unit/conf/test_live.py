"""Weir's settings are read from Django's by their kinds, and are those of now."""

from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from pydantic import SecretStr
from pytest_django import Settings

from tests.cases import for_each
from weir.conf import UnreadableSetting, live
from weir.conf import settings as weir_settings

RELAY = "smtp://mail.example:25"


@for_each(
    ("name", "given", "value"),
    [
        ("WEIR_FETCH_TIMEOUT", 30, 30.0),
        ("WEIR_FETCH_TIMEOUT", "90s", 90.0),
        ("WEIR_FETCH_TIMEOUT", timedelta(minutes=2), 120.0),
        ("WEIR_FETCH_TIMEOUT", None, 30.0),
        ("WEIR_STATEMENT_TIMEOUT", timedelta(0), 0.0),
        ("WEIR_STATEMENT_TIMEOUT", 0, 0.0),
        ("WEIR_DEFAULT_RATE", "3/s", "3/s"),
        ("WEIR_DEFAULT_RATE", "", "1/s"),
        ("WEIR_OBEY_ROBOTS", False, False),
        ("WEIR_OBEY_ROBOTS", "no", False),
        ("WEIR_UNREAD_CAP", 100, 100),
        ("WEIR_UNREAD_CAP", "100", 100),
        ("WEIR_FETCH_ALLOW_PORTS", [80, "8000-8099"], ["80", "8000-8099"]),
        ("WEIR_FETCH_ALLOW_PORTS", "80, 443", ["80", "443"]),
        ("WEIR_FETCH_ALLOW_NETS", (ip_network("10.0.0.0/8"),), ["10.0.0.0/8"]),
        ("WEIR_METRICS_SITES", [], []),
        ("WEIR_DOCS_URL", " https://docs.example/*.html ", "https://docs.example/*.html"),
        ("WEIR_LIVENESS_DIR", Path("/run/weir"), "/run/weir"),
        ("WEIR_METRICS_TOKEN", "t0ken", SecretStr("t0ken")),
        ("WEIR_METRICS_TOKEN", SecretStr("t0ken"), SecretStr("t0ken")),
        ("WEIR_MAIL_RELAYS", [RELAY], (SecretStr(RELAY),)),
        ("WEIR_MAIL_RELAYS", (SecretStr(RELAY),), (SecretStr(RELAY),)),
        ("WEIR_MAIL_RELAYS", SecretStr(RELAY), (SecretStr(RELAY),)),
        ("WEIR_MAIL_ROUTES", {"*": ("main", "bulk")}, {"*": ["main", "bulk"]}),
        ("WEIR_MAIL_ROUTES", "*=main", {"*": ["main"]}),
        ("WEIR_USER_KEY", "UUID", "uuid"),
        ("WEIR_REDIS_URL", "redis://cache.example", SecretStr("redis://cache.example")),
    ],
)
def test_plain_types_are_read(name: str, given: Any, value: Any) -> None:
    """What a settings module writes is what the text of a variable would be."""
    with override_settings(**{name: given}):
        assert getattr(weir_settings, name) == value


def test_a_change_is_seen_and_its_end(settings: Settings) -> None:
    """Values are kept, and forgotten when a setting changes."""
    assert weir_settings.WEIR_LOOKAHEAD == 3.0
    with override_settings(WEIR_LOOKAHEAD=5):
        assert weir_settings.WEIR_LOOKAHEAD == 5.0
    assert weir_settings.WEIR_LOOKAHEAD == 3.0
    settings.WEIR_LOOKAHEAD = 6
    assert weir_settings.WEIR_LOOKAHEAD == 6.0


def test_a_value_is_read_once() -> None:
    """The second time it is an attribute like any other: hot paths ask for it."""
    value = weir_settings.WEIR_FETCH_MAX_MEMORY
    assert vars(weir_settings)["WEIR_FETCH_MAX_MEMORY"] == value


def test_what_cannot_be_read_is_refused() -> None:
    """Who reads it gets the sentence, each time, and never a default in silence. The error leads to no value."""
    with override_settings(WEIR_OPS_READ_ONLY="ture"):
        for _ in range(2):
            with pytest.raises(UnreadableSetting, match=r"^WEIR_OPS_READ_ONLY must be true or false") as refused:
                _ = weir_settings.WEIR_OPS_READ_ONLY
            assert (refused.value.__cause__, refused.value.__context__) == (None, None)


def test_another_name_is_none_of_weirs() -> None:
    """Django's own settings are asked of Django."""
    with pytest.raises(AttributeError, match=r"^Weir has no setting DEBUG\.$"):
        _ = weir_settings.DEBUG  # type: ignore[attr-defined]


def test_it_is_set_in_djangos_settings() -> None:
    """What is set here would be seen by nobody who asks Django, and be gone at the next change."""
    with pytest.raises(AttributeError, match=r"^Set WEIR_LOOKAHEAD in Django's settings"):
        weir_settings.WEIR_LOOKAHEAD = 5.0


@for_each(
    ("given", "url"),
    [
        ({"REDIS_URL": None, "CELERY_BROKER_URL": None}, "redis://127.0.0.1:6379/0"),
        ({"REDIS_URL": "redis://a.example/1", "CELERY_BROKER_URL": "redis://b.example/2"}, "redis://a.example/1"),
        ({"REDIS_URL": None, "CELERY_BROKER_URL": "rediss://:p@b.example/2"}, "rediss://:p@b.example/2"),
        ({"REDIS_URL": None, "CELERY_BROKER_URL": "amqp://mq.example"}, "redis://127.0.0.1:6379/0"),
        ({"REDIS_URL": None, "CELERY_BROKER_URL": "redis://a;redis://b"}, "redis://127.0.0.1:6379/0"),
        ({"WEIR_REDIS_URL": "redis://c.example", "REDIS_URL": "redis://a.example/1"}, "redis://c.example"),
        ({"REDIS_URL": "redis+cluster://:p@a:1,b:2"}, "redis+cluster://:p@a:1,b:2"),
    ],
)
def test_redis_is_found(given: dict[str, Any], url: str) -> None:
    """Without WEIR_REDIS_URL it is REDIS_URL, a broker that is one Redis, or a local one."""
    with override_settings(**given):
        assert weir_settings.WEIR_REDIS_URL.get_secret_value() == url


def test_a_fault_is_said_of_the_setting_that_has_it() -> None:
    with override_settings(REDIS_URL="redis://cache.example/zero"):
        assert [*live.mistakes()] == [
            "REDIS_URL is malformed (what follows the last / must be a number): write redis://:PASSWORD@HOST:6379/0."
        ]
