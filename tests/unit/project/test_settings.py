"""Settings read what environment variables say, or refuse it in a sentence: never something else in silence."""

import os
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from dotenv import dotenv_values
from hypothesis import assume, given
from hypothesis import strategies as st

from project import environment
from project.environment import UnreadableVariables, secret_key
from project.processes import folder
from tests.unit.project import compose_env_file
from tests.unit.project.test_deployment_files import load_settings, variables_listed

SECRET = "s3cret"  # noqa: S105  what must never be seen


@pytest.fixture(autouse=True)
def _only_what_a_test_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no variable of this machine, and no .env file, in the way."""
    monkeypatch.setattr(environment, "load_dotenv", lambda *_arguments, **_options: False)
    monkeypatch.setattr(folder, "decided", dict)  # nor that of a `make up` which runs here
    for name in variables_listed():
        monkeypatch.delenv(name, raising=False)


READ: list[tuple[str, str, Any]] = [
    ("WEIR_FETCH_RETENTION", "86400", 86_400.0),
    ("WEIR_FETCH_RETENTION", "30d", 30 * 86_400.0),
    ("WEIR_FETCH_TIMEOUT", "5m", 300.0),
    ("WEIR_FETCH_TIMEOUT", " 2 Hours ", 7_200.0),
    ("WEIR_FETCH_TIMEOUT", ".5", 0.5),
    ("WEIR_LOOKAHEAD", "1e1", 10.0),
    ("EMAIL_TIMEOUT", "0.001", 0.001),
    ("EMAIL_PORT", " 587 ", 587),
    ("EMAIL_PORT", "65535", 65_535),
    ("WEIR_MAIL_RATE", "10/s", "10/s"),
    ("WEIR_OBEY_ROBOTS", "true", True),
    ("WEIR_OBEY_ROBOTS", " Yes ", True),
    ("WEIR_OBEY_ROBOTS", "ON", True),
    ("WEIR_OBEY_ROBOTS", "1", True),
    ("WEIR_OBEY_ROBOTS", "False", False),
    ("WEIR_OBEY_ROBOTS", "no", False),
    ("WEIR_OBEY_ROBOTS", "off", False),
    ("WEIR_OBEY_ROBOTS", "0", False),
    ("WEIR_FETCH_ALLOW_NETS", "10.1.0.0/16, fd00::/8,", ["10.1.0.0/16", "fd00::/8"]),
    ("WEIR_FETCH_ALLOW_PORTS", "443, 8000-8099,", ["443", "8000-8099"]),
    ("EMAIL_HOST_PASSWORD", "$ecret ", "$ecret "),
]


def test_a_value_is_read_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are seconds unless they name a unit; booleans and blanks around a value are as people write them."""
    found = []
    for name, text, _ in READ:
        with monkeypatch.context() as patch:
            patch.setenv(name, text)
            found.append((name, text, load_settings()[name]))
    assert found == READ


TIMES = "must be a number of seconds {}, such as 30 or 0.5, or a length of time up to 366d, such as 90s, 10m, 2h or 1d"
TIME = TIMES.format("above 0")
RATE = "must be a rate from 1/366d to 1000/s, such as 3/s, 1/10s, 100/h or 1/day"
PORTS = "must be ports and ranges of ports with commas between them, such as 80,443,8000-8099"
PREFIX = "must be up to 32 letters, digits, _, - and ., such as weir"
NETWORKS = "must be networks (no host bits set) with commas between them, such as 10.1.0.0/16,fd00::/8"


REFUSED = [
    *(("WEIR_FETCH_TIMEOUT", text, TIME) for text in ("abc", "nan", "inf", "-1", "0,5", "30x", "1,000.5", "400d")),
    ("WEIR_RETRY_AFTER_MAX", "-1", TIME),
    ("WEIR_STATEMENT_TIMEOUT", "-1s", TIMES.format("from 0 up")),
    ("WEIR_LOOKAHEAD", "-1", TIMES.format("from 1 to 60")),
    ("WEIR_FETCH_MAX_BODY", "5MB", "must be a whole number above 0, such as 5242880"),
    ("WEIR_FETCH_MAX_BODY", "1e6", "must be a whole number above 0, such as 5242880"),
    ("EMAIL_PORT", "-25", "must be a whole number from 0 to 65535, such as 25"),
    ("WEIR_MAIL_MAX_ATTEMPTS", "2.5", "must be a whole number above 0, such as 20"),
    ("WEIR_UNREAD_CAP", "-1", "must be a whole number from 0 up, such as 0"),
    *(("WEIR_REDIS_PREFIX", text, PREFIX) for text in ("{weir}", "we}ir", "we ir", "we\tir", "a:b", "x" * 33)),
    ("WEIR_OBEY_ROBOTS", "ture", "must be true or false"),
    ("WEIR_OBEY_ROBOTS", "2", "must be true or false"),
    ("DJANGO_DEBUG", "nope", "must be true or false"),
    ("WEIR_TRANSACTION_POOLING", "ture", "must be true or false"),
    ("WEIR_LOG_FORMAT", "yaml", "must be json, text or colour"),
    ("WEIR_LOG_LEVEL", "loud", "must be DEBUG, INFO, WARNING, ERROR or CRITICAL"),
    ("EMAIL_PORT", "65536", "must be a whole number from 0 to 65535, such as 25"),
    ("WEIR_FETCH_TIMEOUT", "0", TIME),
    ("EMAIL_TIMEOUT", "0s", TIME),
    ("WEIR_FETCH_MAX_BODY", "0", "must be a whole number above 0, such as 5242880"),
    ("WEIR_MAIL_MAX_ATTEMPTS", "0", "must be a whole number above 0, such as 20"),
    *(("WEIR_DEFAULT_RATE", text, RATE) for text in ("often", "5000/s", "0/s")),
    ("WEIR_MAIL_RATE", "ten", RATE),
    ("WEIR_FETCH_ALLOW_NETS", "intranet", NETWORKS),
    ("WEIR_FETCH_ALLOW_NETS", "10.0.0.0/8, 10.0.0.1/8", NETWORKS),
    *(("WEIR_FETCH_ALLOW_PORTS", text, PORTS) for text in ("http", "0", "65536", "90-80", "-80", "80:90")),
]


def test_a_value_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence names the variable, what it must be, and what it is."""
    found = []
    for name, text, _ in REFUSED:
        with monkeypatch.context() as patch:
            patch.setenv(name, text)
            found.append(refusal())
    assert found == [f"{name} {wanted}, but is {text!r}." for name, text, wanted in REFUSED]


def refusal() -> str:
    """Return why the settings cannot be read; empty if they can."""
    try:
        load_settings()
    except ImproperlyConfigured as refused:
        return str(refused)
    return ""


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


def test_a_real_database_refuses_the_placeholder_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody knows it. One sentence says what to write; DEBUG, and the embedded servers, do without."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/orders")
    with pytest.raises(ImproperlyConfigured, match=r"^DJANGO_SECRET_KEY must be a long random text .*makes one\.$"):
        load_settings()
    monkeypatch.setenv("DJANGO_DEBUG", "true")
    assert load_settings()["DEBUG"] is True


def test_a_checkout_makes_a_key_of_its_own_once(tmp_path: Path) -> None:
    """The same at each start, so that sessions last; only its owner can read it."""
    key = secret_key.of_checkout(tmp_path)
    assert len(key) > 50
    assert secret_key.of_checkout(tmp_path) == key
    assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600


def test_a_log_level_may_be_written_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python's logging refuses is read all the same."""
    monkeypatch.setenv("WEIR_LOG_LEVEL", "warning")
    assert load_settings()["log level"] == "WARNING"


def test_what_the_database_url_says_of_the_connection_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also `options`, and the time after which a silent host is given up."""
    url = "postgresql://db.example/orders?options=-csearch_path%3Dmine&tcp_user_timeout=20000&application_name=shop"
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("DJANGO_SECRET_KEY", "a key of the tests")
    options = load_settings()["DATABASES"]["default"]["OPTIONS"]
    assert options["options"] == "-csearch_path=mine"
    assert (options["tcp_user_timeout"], options["application_name"], options["keepalives"]) == (20_000, "shop", 1)


def test_all_mistakes_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each variable, in the order of the reference; what can be read is not mentioned."""
    monkeypatch.setenv("WEIR_OBEY_ROBOTS", "ture")
    monkeypatch.setenv("DATABASE_URL", f"mysql://weir:{SECRET}@db.example/orders")
    monkeypatch.setenv("EMAIL_PORT", "25")
    monkeypatch.setenv("WEIR_FETCH_TIMEOUT", "abc")
    with pytest.raises(ImproperlyConfigured) as refused:
        load_settings()
    lines = str(refused.value).splitlines()
    assert [line.split()[0] for line in lines] == ["DATABASE_URL", "WEIR_FETCH_TIMEOUT", "WEIR_OBEY_ROBOTS"]
    assert SECRET not in str(refused.value)


def test_a_traceback_leads_to_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has neither cause nor context: those of the library that reads the variables hold all of them."""
    monkeypatch.setenv("DATABASE_URL", f"postgresql://weir:{SECRET}@db.example:port/orders")
    monkeypatch.setenv("REDIS_URL", f"redis://:{SECRET}@cache.example:port/0")
    with pytest.raises(ImproperlyConfigured) as refused:
        load_settings()
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


def test_no_secret_is_shown_by_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables, printed, show no password and no key."""
    for name, text in {
        "DATABASE_URL": f"postgresql://weir:{SECRET}@db.example/orders",
        "REDIS_URL": f"redis://:{SECRET}@cache.example/0",
        "CELERY_BROKER_URL": f"amqp://weir:{SECRET}@mq.example/",
        "EMAIL_HOST_PASSWORD": SECRET,
        "DJANGO_SECRET_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, text)
    assert SECRET not in repr(environment.read(Path("no.env")))


class TestTheFile:
    """`.env` in the checkout."""

    def read(self, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> environment.Variables:
        monkeypatch.undo()  # the fixture above reads no file; and these variables must go again
        for name in variables_listed():
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)
        (folder / ".env").write_text(text)
        return environment.read(folder / ".env")

    def test_it_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its variables hold, also in the processes that this one starts."""
        found = self.read("# pace\nWEIR_LOOKAHEAD=5s\nEMAIL_HOST='mail.example'\n", tmp_path, monkeypatch)
        assert (found.WEIR_LOOKAHEAD, found.EMAIL_HOST) == (5.0, "mail.example")
        assert os.environ["WEIR_LOOKAHEAD"] == "5s"

    @pytest.mark.parametrize(("text", "value"), [("2", 2.0), ("", 3.0)])
    def test_the_environment_wins(
        self, text: str, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also an empty variable, which means the default."""
        self.read("", tmp_path, monkeypatch)
        monkeypatch.setenv("WEIR_LOOKAHEAD", text)
        (tmp_path / ".env").write_text("WEIR_LOOKAHEAD=5\n")
        assert value == environment.read(tmp_path / ".env").WEIR_LOOKAHEAD

    @pytest.mark.parametrize(
        ("given", "host", "port"),
        [
            ({}, "127.0.0.1", 4711),
            ({"EMAIL_HOST": "mail.example"}, "mail.example", 25),
            ({"EMAIL_PORT": "26"}, "localhost", 26),
        ],
    )
    def test_a_mail_server_is_one(
        self, given: dict[str, str], host: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the environment says something of it, nothing holds of the one that `up` decided on."""
        for name in ("EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT"):
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        found = environment.read(tmp_path / ".env", lambda: {"EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": "4711"})
        assert (host, port) == (found.EMAIL_HOST, found.EMAIL_PORT)

    def test_a_dollar_is_a_dollar(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Passwords are not taken for the names of other variables."""
        found = self.read("EMAIL_HOST_PASSWORD=$ecret${HOME}#1\n", tmp_path, monkeypatch)
        assert found.EMAIL_HOST_PASSWORD.get_secret_value() == "$ecret${HOME}#1"

    @pytest.mark.parametrize("line", ['DEFAULT_FROM_EMAIL="Shop" <shop@shop.example>', "EMAIL_HOST='mail", "= value"])
    def test_a_line_that_cannot_be_read_is_named(
        self, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its variable would be left out in silence; what the line says may be secret."""
        with pytest.raises(UnreadableVariables, match=r"^\.env, line 2, cannot be read: write NAME=value") as raised:
            self.read(f"# mail\n{line}\n", tmp_path, monkeypatch)
        assert "mail" not in str(raised.value)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"WEIR_LOOKAHEAD=5s\n", ""),
            (b"WEIR_LOOKAHEAD=soon\n", "WEIR_LOOKAHEAD must be"),
            (b"# mail\nEMAIL_HOST='a\n", r"\.env, line 2, cannot be read"),
            (b"EMAIL_HOST=caf\xe9\n", r"\.env cannot be read: it is not in UTF-8"),
        ],
    )
    def test_it_is_judged_without_being_read(self, content: bytes, said: str, tmp_path: Path) -> None:
        """As by a process that is started with it; what that is given wins."""
        (tmp_path / ".env").write_bytes(content)
        told = environment.refusal(tmp_path / ".env", {})
        assert re.match(said, told)
        assert bool(told) is bool(said)
        assert "WEIR_LOOKAHEAD" not in os.environ
        assert "must be" not in environment.refusal(tmp_path / ".env", {"WEIR_LOOKAHEAD": "5s"})

    def test_what_is_in_single_quotes_stands_for_itself(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Passwords may have blanks, number signs and double quotes."""
        found = self.read("EMAIL_HOST_PASSWORD='a #b \"c\"'\n", tmp_path, monkeypatch)
        assert found.EMAIL_HOST_PASSWORD.get_secret_value() == 'a #b "c"'

    @pytest.mark.parametrize(
        ("written", "value"),
        [
            ("p4ss.w0rd,:/@%+-_=~!*", "p4ss.w0rd,:/@%+-_=~!*"),
            ("a#b", "a#b"),
            ("it's", "it's"),
            ("'two words'", "two words"),
            ("'  kept  '  # comment", "  kept  "),
            ("'a #b'", "a #b"),
            ("'$ecret ${HOME} $$'", "$ecret ${HOME} $$"),
            ("""'"quoted"'""", '"quoted"'),
            (r"'it\'s'", "it's"),
            (r"'back\slash\n'", r"back\slash\n"),
            (r"back\slash", r"back\slash"),
            ("''", ""),
        ],
    )
    def test_what_the_reference_says_to_write_is_read_as_by_compose(
        self, written: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One file serves both: docker-compose.yml hands .env to the containers."""
        found = self.read(f"EMAIL_HOST_PASSWORD={written}\n", tmp_path, monkeypatch)
        assert found.EMAIL_HOST_PASSWORD.get_secret_value() == value
        assert compose_env_file.value_of(written) == value

    @given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), min_size=1))
    def test_any_value_in_single_quotes_is_read_as_by_compose(self, text: str) -> None:
        """But for two backslashes in a row, and one at the end."""
        assume("\\\\" not in text and not text.endswith("\\") and "\\'" not in text)
        written = "'" + text.replace("'", "\\'") + "'"
        assert dotenv_values(stream=StringIO(f"A={written}\n"), interpolate=False) == {"A": text}
        assert compose_env_file.value_of(written) == text

    def test_there_need_be_none(self, tmp_path: Path) -> None:
        """Without it, the environment alone is read."""
        assert environment.read(tmp_path / ".env").WEIR_LOOKAHEAD == 3.0
