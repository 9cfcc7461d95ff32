"""Settings read what environment variables say, or refuse it in a sentence: never something else in silence."""

from typing import Any

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.unit.project.test_deployment_files import load_settings, variables_listed


@pytest.fixture(autouse=True)
def _only_what_a_test_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no variable of this machine, and no .env file, in the way."""
    monkeypatch.setattr(environ.Env, "read_env", lambda *_arguments: None)
    for name in variables_listed():
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("WEIR_FETCH_RETENTION", "86400", 86_400.0),
        ("WEIR_FETCH_RETENTION", "30d", 30 * 86_400.0),
        ("WEIR_FETCH_TIMEOUT", "5m", 300.0),
        ("WEIR_FETCH_TIMEOUT", " 2 Hours ", 7_200.0),
        ("WEIR_FETCH_TIMEOUT", ".5", 0.5),
        ("WEIR_LOOKAHEAD", "1e1", 10.0),
        ("EMAIL_TIMEOUT", "0", 0.0),
        ("EMAIL_PORT", " 587 ", 587),
        ("WEIR_OBEY_ROBOTS", "true", True),
        ("WEIR_OBEY_ROBOTS", " Yes ", True),
        ("WEIR_OBEY_ROBOTS", "ON", True),
        ("WEIR_OBEY_ROBOTS", "1", True),
        ("WEIR_OBEY_ROBOTS", "False", False),
        ("WEIR_OBEY_ROBOTS", "no", False),
        ("WEIR_OBEY_ROBOTS", "off", False),
        ("WEIR_OBEY_ROBOTS", "0", False),
        ("WEIR_FETCH_ALLOW_NETS", "10.1.0.0/16, fd00::/8,", ["10.1.0.0/16", "fd00::/8"]),
        ("EMAIL_HOST_PASSWORD", "$ecret ", "$ecret "),
    ],
)
def test_a_value_is_read_as_it_is_written(name: str, text: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are seconds unless they name a unit; booleans and blanks around a value are as people write them."""
    monkeypatch.setenv(name, text)
    assert load_settings()[name] == value


TIME = "must be a number of seconds, such as 30 or 0.5, or a length of time up to 366d, such as 90s, 10m, 2h or 1d"


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        *(("WEIR_FETCH_TIMEOUT", text, TIME) for text in ("abc", "nan", "inf", "-1", "0,5", "30x", "1,000.5", "400d")),
        ("WEIR_RETRY_AFTER_MAX", "-1", TIME),
        ("WEIR_STATEMENT_TIMEOUT", "-1s", TIME),
        ("WEIR_FETCH_MAX_BODY", "5MB", "must be a whole number, such as 5242880"),
        ("WEIR_FETCH_MAX_BODY", "1e6", "must be a whole number, such as 5242880"),
        ("EMAIL_PORT", "-25", "must be a whole number, such as 25"),
        ("WEIR_MAIL_MAX_ATTEMPTS", "2.5", "must be a whole number, such as 20"),
        ("WEIR_OBEY_ROBOTS", "ture", "must be true or false"),
        ("WEIR_OBEY_ROBOTS", "2", "must be true or false"),
        ("DJANGO_DEBUG", "nope", "must be true or false"),
        ("WEIR_LOG_LEVEL", "loud", "must be DEBUG, INFO, WARNING, ERROR or CRITICAL"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(
    name: str, text: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence names the variable, what it must be, and what it is."""
    monkeypatch.setenv(name, text)
    with pytest.raises(ImproperlyConfigured) as refused:
        load_settings()
    assert str(refused.value) == f"{name} {wanted}, but is {text!r}."


@pytest.mark.parametrize("url", ["foo", "valkey://cache.example/0", "redis://cache.example/zero"])
def test_a_redis_url_that_cannot_be_read_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to write, and nothing of the URL, which may hold a password."""
    monkeypatch.setenv("REDIS_URL", url)
    with pytest.raises(ImproperlyConfigured, match=r"^REDIS_URL is malformed \(.*: write redis://") as refused:
        load_settings()
    assert url not in str(refused.value)


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_variable_is_an_unset_one(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting is what it is by default."""
    by_default = load_settings()
    for name in set(variables_listed()) - {"DJANGO_SECRET_KEY", "WEIR_HOME"}:
        monkeypatch.setenv(name, empty)
    assert load_settings() == by_default


def test_an_empty_secret_key_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django signs nothing with it: a secret that did not arrive must not become one that everybody knows."""
    monkeypatch.setenv("DJANGO_SECRET_KEY", "")
    assert load_settings()["SECRET_KEY"] == ""


def test_a_log_level_may_be_written_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python's logging refuses is read all the same."""
    monkeypatch.setenv("WEIR_LOG_LEVEL", "warning")
    assert load_settings()["log level"] == "WARNING"
