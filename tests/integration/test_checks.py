"""Settings that cannot work are said when a process starts, each with its id, its name and what to write."""

from typing import Any

import pytest
from django.conf import LazySettings
from django.core.checks import CheckMessage, run_checks


def weir_messages() -> list[CheckMessage]:
    return [message for message in run_checks() if str(message.id).startswith("weir.")]


def test_the_settings_as_they_come_are_in_order() -> None:
    """A fresh checkout has nothing to complain about."""
    assert weir_messages() == []


@pytest.mark.parametrize(
    ("name", "value", "check", "words"),
    [
        ("WEIR_DEFAULT_RATE", "often", "weir.E001", "such as 3/s"),
        ("WEIR_DEFAULT_RATE", "", "weir.E001", "such as 3/s"),
        ("WEIR_DEFAULT_RATE", "5000/s", "weir.E001", "1000/s"),
        ("WEIR_FETCH_ALLOW_NETS", ["10.0.0.1/8"], "weir.E002", "10.0.0.1/8"),
        ("WEIR_FETCH_ALLOW_NETS", ["127.0.0.0/8", "intranet"], "weir.E002", "intranet"),
        ("WEIR_LOOKAHEAD", 0.9, "weir.E004", "0.9"),
        ("WEIR_LOOKAHEAD", -1.0, "weir.E004", "-1.0"),
        ("WEIR_FETCH_TIMEOUT", 0.0, "weir.E003", "greater than 0"),
        ("WEIR_FETCH_CONNECT_TIMEOUT", 0.0, "weir.E003", "greater than 0"),
        ("WEIR_FETCH_DNS_TIMEOUT", 0.0, "weir.E003", "greater than 0"),
        ("WEIR_FETCH_MAX_BODY", 0, "weir.E003", "greater than 0"),
        ("WEIR_FETCH_MAX_IN_FLIGHT", 0, "weir.E003", "greater than 0"),
        ("WEIR_SLOT_RETENTION", 0.0, "weir.E003", "greater than 0"),
        ("WEIR_FETCH_RETENTION", -5.0, "weir.E003", "greater than 0"),
        ("WEIR_NOTIFICATION_RETENTION", 0.0, "weir.E005", "greater than 0"),
        ("WEIR_NOTIFICATION_RETENTION", -1.0, "weir.E005", "but is -1.0"),
    ],
)
def test_a_setting_that_cannot_work_is_an_error(
    name: str, value: Any, check: str, words: str, settings: LazySettings
) -> None:
    """The error has its id, names the setting, and says what is wrong with its value."""
    setattr(settings, name, value)
    [message] = weir_messages()
    assert message.id == check
    assert name in message.msg
    assert words in message.msg


def test_every_wrong_setting_is_said_at_once(settings: LazySettings) -> None:
    """Nobody has to start a process five times to learn of five mistakes."""
    settings.WEIR_DEFAULT_RATE, settings.WEIR_FETCH_ALLOW_NETS, settings.WEIR_LOOKAHEAD = "often", ["x"], 0
    settings.WEIR_FETCH_TIMEOUT = settings.WEIR_NOTIFICATION_RETENTION = 0
    assert sorted(str(message.id) for message in weir_messages()) == [
        "weir.E001", "weir.E002", "weir.E003", "weir.E004", "weir.E005",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [[], [""], ["127.0.0.0/8", " fd00::/8 "]])
def test_networks_that_can_be_read_are_in_order(value: list[str], settings: LazySettings) -> None:
    """No networks, blank ones and spaces are no mistakes."""
    settings.WEIR_FETCH_ALLOW_NETS = value
    assert weir_messages() == []
