"""A variable that somebody meant for Weir and that Weir does not read is said, with the name that may be meant."""

import re

import pytest
from django.core.checks import run_checks
from structlog.testing import capture_logs

from project.checkout import CHECKOUT
from project.environment.unknown import OF_TOOLS, log_unknown, unknown
from project.environment.variables import Variables
from tests.cases import for_each

PLACES = ("Makefile", "benchmarks/**/*.py", "tests/**/*.py")


@for_each(
    ("name", "meant"),
    [
        ("WEIR_FETCH_ALOW_NETS", "WEIR_FETCH_ALLOW_NETS"),
        ("WEIR_ALLOW_PORTS", "WEIR_FETCH_ALLOW_PORTS"),
        ("weir_home", "WEIR_HOME"),
        ("WEIR_LOOKAHAED", "WEIR_LOOKAHEAD"),
        ("WEIR_SECRET_DIR", "WEIR_SECRETS_DIR"),
    ],
)
def test_a_misspelt_name_is_known_for_what_it_means(name: str, meant: str) -> None:
    """All that begin with WEIR_."""
    assert unknown([name]) == [(name, f"Weir reads no variable {name}. Did you mean {meant}?")]


def test_a_name_like_no_other_is_told_where_all_stand() -> None:
    """It may be of another version."""
    [told] = unknown(["WEIR_GO_FASTER"])
    assert told.sentence == "Weir reads no variable WEIR_GO_FASTER. Unset it: docs/reference/settings.md has all."


@for_each(
    "name", ["PATH", "HOME", "PORT", "HOST", "POSTGRES_PASSWORD", "EMAIL", "DJANGO_SETTINGS_MODULE", "REDIS", "A", ""]
)
def test_names_of_others_are_left_alone(name: str) -> None:
    """Whoever reads them."""
    assert unknown([name]) == []


def test_what_weir_reads_is_known() -> None:
    """All variables, those of tests and benchmarks, and those of secrets."""
    assert unknown([*Variables.model_fields, *OF_TOOLS, "WEIR_SECRET_SHOP"]) == []


def test_the_variables_of_tests_and_benchmarks_are_those_that_they_read() -> None:
    """No more, and no less: each stands in one list."""
    read = set()
    for place in PLACES:
        for path in CHECKOUT.glob(place):
            read |= set(re.findall(r"(?:environ|getenv)\W[^\n]*?\"(WEIR_[A-Z_]+)\"", path.read_text()))
            read |= set(re.findall(r"\"(WEIR_[A-Z_]+)\" (?:not )?in os\.environ", path.read_text()))
            read |= set(re.findall(r"^\t(WEIR_[A-Z_]+)=", path.read_text(), re.MULTILINE))
    assert read - Variables.model_fields.keys() == OF_TOOLS


def test_commands_and_processes_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check`, and so each command, by a warning; processes by a line of their logs."""
    monkeypatch.setenv("WEIR_FETCH_ALOW_NETS", "10.0.0.0/8")
    told = "Weir reads no variable WEIR_FETCH_ALOW_NETS. Did you mean WEIR_FETCH_ALLOW_NETS?"
    assert [message.msg for message in run_checks() if message.id == "weir.W003"] == [told]
    with capture_logs() as logs:
        log_unknown()
    assert logs == [
        {"event": "variable_not_read", "variable": "WEIR_FETCH_ALOW_NETS", "error": told, "log_level": "warning"}
    ]
