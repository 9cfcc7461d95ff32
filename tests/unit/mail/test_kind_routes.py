"""Routes of kinds: which relays a kind goes by, what a text means, and one sentence about one that means nothing."""

from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from project import environment
from project.environment import UnreadableVariables
from tests.cases import for_each
from weir.conf.texts import kind_routes
from weir.workers.mail import kinds
from weir.workers.mail.transports import relays

SECRET = "hunter2Secret"  # noqa: S105  a test's own
URLS = ["main=smtp://a.example", "bulk=smtp://b.example:26", "smtp://c.example", "resend://key@[::1]"]


@pytest.fixture(autouse=True)
def _configured(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_MAIL_RELAYS, settings.WEIR_MAIL_ROUTES = URLS, {}
    monkeypatch.setattr(kinds, "_kinds", dict.fromkeys(["newsletter.weekly", "password.reset"], None))


def checked(check_id: str) -> list[str]:
    return [message.msg for message in run_checks() if message.id == check_id]


@for_each(
    ("kind", "pattern"),
    [
        ("a.b", "a.b"),
        ("a.b.c", "a.b.*"),
        ("a.b.c.d", "a.b.c.d"),
        ("a.bc", "a.*"),
        ("a", "*"),
        ("ab.c", "*"),
        ("b", "*"),
    ],
)
def test_the_longest_pattern_counts(kind: str, pattern: str) -> None:
    """Whatever their order."""
    patterns = ["*", "a.*", "a.b", "a.b.*", "a.b.c.d"]
    assert kind_routes.of_kind(kind, patterns) == pattern
    assert kind_routes.of_kind(kind, reversed(patterns)) == pattern


def test_without_routes_each_kind_goes_by_all_relays_and_there_is_one_stream(settings: Settings) -> None:
    [stream] = relays.streams()
    names = ["main=a.example:25", "bulk=b.example:26", "c.example:25", "resend:[::1]"]
    assert [relay.name for relay in stream.relays] == names
    assert [relay.name for relay in relays.of_kind("any")] == names
    settings.WEIR_MAIL_RELAYS = []
    assert len(relays.streams()) == 1


def test_kinds_with_the_same_relays_in_the_same_order_are_one_stream(settings: Settings) -> None:
    settings.WEIR_MAIL_ROUTES = {
        "newsletter.*": ["bulk", "main"],
        "digest": ["bulk=b.example:26", "main=a.example:25"],
        "code": ["main", "bulk"],
        "*": ["main", "c.example:25", "resend:[::1]"],
    }
    ours = [{pattern for pattern, is_ours in stream.kinds.items() if is_ours} for stream in relays.streams()]
    assert ours == [{"newsletter.*", "digest"}, {"code"}, {"*"}]
    assert [relay.name for relay in relays.of_kind("digest")] == ["bulk=b.example:26", "main=a.example:25"]


def test_a_text_of_the_environment_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = " newsletter.*=bulk ; code = main bulk;*=main,c.example:25, ;"
    monkeypatch.setenv("WEIR_MAIL_ROUTES", text)
    routes = environment.read(tmp_path / "no.env").WEIR_MAIL_ROUTES
    assert routes == kind_routes.read(text)
    assert routes == {"newsletter.*": ["bulk"], "code": ["main", "bulk"], "*": ["main", "c.example:25"]}
    assert kind_routes.read("  ") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bulk", "needs a ="),
        ("*=", "* names no relay"),
        ("*=main; a.*=", "a.* names no relay"),
        ("newsletter.*=bulk", "says nothing of other kinds: add *=RELAY"),
        ("*=main; *=bulk", "* has two routes"),
        ("*=main, main", "* names a relay twice"),
        ("news*=bulk; *=main", "before a = there must be a kind, PREFIX.* or *"),
        ("a..b=bulk; *=main", "before a = there must be a kind"),
        (".*=bulk; *=main", "before a = there must be a kind"),
        (f"{'a' * 101}=bulk; *=main", "before a = there must be a kind"),
        (f"smtp://user:{SECRET}=x@host", "before a = there must be a kind"),
        (f"*=smtp://user:{SECRET}@host", "must have names of relays, not their URLs"),
        (f"*=user:{SECRET}@host", "must have names of relays, not their URLs"),
        (f"*=resend://{SECRET}", "must have names of relays, not their URLs"),
    ],
)
def test_what_means_nothing_is_refused_at_the_start(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In one sentence, which says what to write, and nothing of what may be a password."""
    monkeypatch.setenv("WEIR_MAIL_ROUTES", text)
    with pytest.raises(UnreadableVariables) as raised:
        environment.read(tmp_path / "no.env")
    [sentence] = str(raised.value).splitlines()
    assert words in sentence
    assert sentence.startswith("WEIR_MAIL_ROUTES is malformed (")
    assert sentence.endswith("write such as newsletter.*=bulk; *=main, bulk.")
    assert SECRET not in sentence


@pytest.mark.parametrize(
    ("routes", "check", "words"),
    [
        ({"newsletter.*": ["bulk"]}, "weir.E030", "says nothing of other kinds"),
        ({"*": "main"}, "weir.E030", "* names no relay"),
        (
            {"*": ["main", "bluk"]},
            "weir.E020",
            "* names the relay bluk, but WEIR_MAIL_RELAYS has main, bulk, c.example:25, resend:[::1].",
        ),
        ({"*": ["a.example:25"]}, "weir.E020", "* names the relay a.example:25, but"),
    ],
)
def test_routes_of_a_settings_module_are_checked(
    routes: dict[str, list[str]], check: str, words: str, settings: Settings
) -> None:
    settings.WEIR_MAIL_ROUTES = routes
    [sentence] = checked(check)
    assert words in sentence
    assert checked("weir.W007") == []


def test_a_route_that_no_kind_takes_and_a_relay_that_none_goes_by_are_warned_about(settings: Settings) -> None:
    settings.WEIR_MAIL_ROUTES = {"newsletter.*": ["bulk"], "password.rest": ["main"], "*": ["main", "c.example:25"]}
    assert checked("weir.E020") == []
    assert checked("weir.W007") == [
        "WEIR_MAIL_ROUTES: no installed app registers a kind of e-mail that takes the route password.rest.",
        "WEIR_MAIL_ROUTES: no kind uses the relay resend:[::1].",
    ]
    settings.WEIR_MAIL_ROUTES = {}
    assert checked("weir.W007") == []


def test_two_accounts_at_one_host_need_names(settings: Settings) -> None:
    """Their names show the host, too: a name may stand for another one later."""
    settings.WEIR_MAIL_RELAYS = ["smtp://a:b@host", "smtp://c:d@host"]
    [sentence] = checked("weir.E030")
    assert sentence.endswith(
        "is named before: remove one of the two, or, if they are two accounts, give each a name: NAME=URL."
    )
    settings.WEIR_MAIL_RELAYS = ["one=smtp://a:b@host", "two=smtp://c:d=e@host"]
    assert checked("weir.E030") == []
    assert [relay.name for relay in relays.relays()] == ["one=host:25", "two=host:25"]
    settings.WEIR_MAIL_RELAYS = ["one=smtp://a:b@host", "one=smtp://other"]
    assert "Relay 2 of WEIR_MAIL_RELAYS, one, is named before" in checked("weir.E030")[0]


@pytest.mark.parametrize("name", ["", "1st", "a.b", "a:b", "a/b", "ä", "a" * 31])
def test_a_name_that_is_none_is_refused(name: str, settings: Settings) -> None:
    settings.WEIR_MAIL_RELAYS = [f"{name}=smtp://user:{SECRET}@host"]
    [sentence] = checked("weir.E030")
    assert "before its = there must be a name of up to 30 letters" in sentence
    assert SECRET not in sentence
