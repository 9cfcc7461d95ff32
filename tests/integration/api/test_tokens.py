"""Tokens: created and revoked by command, shown once, stored as a hash, and taken at a rate."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from tests.programs import Program, World, token
from weir.api.tokens import actions
from weir.api.tokens.models import Token
from weir.notifications.models import UnreadCount
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.workers.audit import acting
from weir.workers.audit.models import Door, Entry

pytestmark = pytest.mark.django_db(transaction=True)
WHO = ("--who", "pat")


def test_the_command_creates_shows_and_revokes(capsys: pytest.CaptureFixture[str]) -> None:
    call_command(
        "tokens", "create", "shop", "--scope", "weir_ops.view", "--expires", "30d", *WHO, "--why", "for shop", "--json"
    )
    secret = json.loads(capsys.readouterr().out)["token"]
    assert Program(secret).call("GET", "/status").status_code == 200
    call_command("tokens", "list")
    shown = capsys.readouterr().out
    assert "shop" in shown
    assert secret not in shown
    row = Token.objects.get()
    assert secret not in str(vars(row))
    assert timedelta(days=29) < row.expires_at - timezone.now() < timedelta(days=31)
    assert row.last_used_at
    call_command("tokens", "revoke", "shop", *WHO)
    assert "It is revoked" in capsys.readouterr().out
    assert Program(secret).call("GET", "/status").status_code == 401
    entries = [
        (entry.actor, entry.door, entry.action, entry.target, entry.why) for entry in Entry.objects.order_by("pk")
    ]
    assert entries == [
        ("pat", "command", "tokens.create", "shop", "for shop"),
        ("pat", "command", "tokens.revoke", "shop", ""),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shop",), "needs a scope"),
        (("shop", "--scope", "weir_ops.veiw"), "Did you mean weir_ops.view?"),
        (("shop", "--scope", "weir_ops.view", "--expires", "367d"), "366"),
        (("shop", "--scope", "weir_ops.view", "--rate", "fast"), "is not a rate"),
        (("taken", "--scope", "weir_ops.view"), "There is a token 'taken' already"),
        ((" ", "--scope", "weir_ops.view"), "needs a name"),
        (("shop", "--scope", "weir_ops.view", "--replaces", "no"), "There is no token 'no'"),
    ],
)
def test_the_command_refuses_what_makes_no_token(words: tuple[str, ...], said: str) -> None:
    token("weir_ops.view", name="taken")
    with pytest.raises(CommandError, match=said):
        call_command("tokens", "create", *words, *WHO)
    assert [row.name for row in Token.objects.all()] == ["taken"]


def test_a_token_that_replaces_another_one_has_its_watches_and_batches() -> None:
    """Tokens end, and names are not given again. Another program has watches and batches of its own."""
    watched = {"urls": ["https://a.example/"], "every_s": 3_600}
    wanted = {"urls": ["https://a.example/"], "batch": "import-7"}
    new, batches = [], []
    for name, replaces in (("shop", None), ("shop-2", "shop"), ("shop-3", "shop-2"), ("reports", None)):
        scopes = ("weir_watches.add_watch", "weir_fetches.add_fetch")
        program = Program(token(*scopes, name=name, replaces=replaces))
        new.append(program.call("POST", "/watches", watched).json()["new"])
        batches.append(program.call("POST", "/fetches", wanted).json()["batch"])
    assert new == [1, 0, 0, 1]
    assert batches[0] == batches[1] == batches[2] != batches[3]


def test_nobody_gives_what_they_do_not_have() -> None:
    actor = acting.Actor(name="ada", door=Door.PAGE, may={"weir_tokens.add_token", "weir_ops.view"}.__contains__)
    with pytest.raises(acting.NotPermitted, match=r"lacks weir_ratelimit\.change_site"):
        actions.create(actor, "shop", ["weir_ops.view", "weir_ratelimit.change_site"])
    assert not Token.objects.exists()
    assert actions.create(actor, "shop", ["weir_ops.view"]).secret


def signed_in(*permissions: str) -> Client:
    user = User.objects.create_user("ada", is_staff=True)
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    browser = Client()
    browser.force_login(user)
    return browser


def test_the_admin_lists_tokens_and_creates_none() -> None:
    browser = signed_in("weir_tokens.add_token", "weir_tokens.view_token", "weir_tokens.change_token", "weir_ops.view")
    secret = token("weir_ops.view", name="shop")
    assert "shop" in (listed := browser.get("/admin/weir_tokens/token/").content.decode())
    assert secret not in listed
    assert browser.get("/admin/weir_tokens/token/add/").status_code == 403


def signed_out() -> Client:
    return Client()


def test_a_token_is_taken_at_its_rate() -> None:
    """Beyond it, 429 says when to come again; other tokens are not affected."""
    made = actions.create(acting.of_shell("pat"), "shop", ["weir_ops.view"], rate="1/m", burst=4)
    other = Program(token("weir_ops.view", name="other"))
    answers = [Program(made.secret).call("GET", "/status") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
    assert answers[-1].json()["type"] == "/api/problems/too-many-requests"
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    assert other.call("GET", "/status").status_code == 200
    site_settings.set_rate(made.token.site, "100/s", burst=100)
    assert Program(made.secret).call("GET", "/status").status_code == 200
    site_settings.pause(made.token.site)
    assert Program(made.secret).call("GET", "/status").headers["Retry-After"] == "3600"
    assert Site.objects.get(name=made.token.site).is_kept


@pytest.mark.usefixtures("valkey")
def test_the_use_of_a_token_is_noted_once_a_minute() -> None:
    """A write for each request would be the dearest part of most of them."""
    program = Program(token("weir_ops.view"))
    for ago, is_noted in ((None, True), (timedelta(seconds=50), False), (timedelta(seconds=70), True)):
        before = ago and timezone.now() - ago
        Token.objects.update(last_used_at=before)
        assert program.call("GET", "/status").status_code == 200
        assert (Token.objects.get().last_used_at != before) is is_noted, ago


def test_what_a_program_changes_has_its_entry(world: World) -> None:
    """With the token's name, the API as the door, and the reason."""
    call_command("flush_unread", verbosity=0)
    UnreadCount.objects.update(unread_count=6)  # a number that is right is not changed
    program = Program(token())
    acts = {name: example for name, example in world.examples().items() if example.is_operators}
    for example in acts.values():
        program.call(example.method, example.path, example.body, headers=example.headers)
    found = set(Entry.objects.filter(actor="shop", door="api").values_list("action", flat=True))
    assert found == {
        *("fetches.cancel", "fetches.retry", "sites.set", "sites.pause", "sites.resume", "sites.ask_robots"),
        *("emails.arrived", "emails.pause_kind", "emails.resume_kind", "unread.reconcile_user", "watches.remove"),
        *("effects.done", "effects.pause_kind", "effects.resume_kind"),
        "batches.cancel",
        "users.forget",
        *(f"webhooks.{act}" for act in ("add", "pause", "resume", "test", "remove")),
    }
