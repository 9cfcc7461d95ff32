"""Programs have users forgotten."""

import pytest

from tests.programs import USER, Program, World, token
from tests.refunds import BLIND
from tests.waiting import wait_for
from weir.notifications import flush, inbox
from weir.notifications.maintenance import forgetting
from weir.notifications.models import ForgottenUser, Notification, UnreadCount
from weir.workers.audit.models import Entry
from weir.workers.effects import queueing, resolving
from weir.workers.effects.models import Act
from weir.workers.mail import outbox, suppression
from weir.workers.mail.models import Email

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]  # which empties Redis
KIM = "kim@example.com"
FORGOTTEN = f"/users/{USER}/forgotten"
NONE = {"emails_forgotten": 0, "emails_cancelled": 0, "emails_left": 0, "effects_forgotten": 0, "effects_left": 0}
KIMS = {"name": "Kim"}


@pytest.fixture
def program(world: World) -> Program:  # noqa: ARG001  made in it
    return Program(token("weir_notifications.add_forgottenuser"))


def nothing_is_left() -> bool:
    flush.flush_sealed()
    forgetting.finish()
    return not ForgottenUser.objects.exists()


def queue(world: World, key: str) -> Email:
    return outbox.send_once("order.shipped", key, to=KIM, context={"order_id": world.order})


def test_a_user_is_forgotten_and_others_are_not(program: Program) -> None:
    inbox.notify(8, "news", "For another user")
    answers = [program.call("PUT", FORGOTTEN, {"why": "Request 4711"}) for _ in range(2)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(202, NONE)] * 2, "it may be repeated"
    assert list(Notification.objects.values_list("user_id", flat=True)) == [8]
    wait_for(nothing_is_left, 30, "the end of the transactions that may have notified the user")
    assert set(UnreadCount.objects.values_list("user_id", flat=True)) <= {8}
    entry = Entry.objects.latest("pk")
    assert (entry.action, entry.actor, entry.target, entry.why) == ("users.forget", "shop", "user 7", "Request 4711")


def test_their_emails_are_forgotten_too_if_the_token_may(program: Program, world: World) -> None:
    """All of it, or nothing: neither part is done by a program that lacks the right to the other."""
    queue(world, "18")
    wanted = {"why": "Asked by Kim@Example.com", "address": KIM}
    refused = program.call("PUT", FORGOTTEN, wanted)
    assert (refused.status_code, "weir_mail.resolve_email" in refused.text) == (403, True)
    assert Notification.objects.filter(user_id=USER).exists()
    both = Program(token("weir_notifications.add_forgottenuser", "weir_mail.resolve_email", name="both"))
    first, again = (both.call("PUT", FORGOTTEN, wanted) for _ in range(2))
    assert first.json() == {**NONE, "emails_forgotten": 2, "emails_cancelled": 1}
    assert (again.status_code, again.json()) == (202, NONE)
    assert set(Email.objects.values_list("recipient", "subject")) == {("", "")}
    assert suppression.is_forgotten(KIM)
    assert KIM not in str(list(Entry.objects.values())).lower(), "what is kept must not have the address"
    whys = Entry.objects.filter(action__endswith=".forget").values_list("why", flat=True)
    assert set(whys) == {"Asked by <recipient>"}


def test_what_a_request_has_no_time_for_is_left_for_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in range(5):
        queue(world, f"later {key}")
    both = Program(token("weir_notifications.add_forgottenuser", "weir_mail.resolve_email"))
    wanted = {"why": "Asked", "address": KIM}
    monkeypatch.setattr("weir.api.operations.users.WITHIN_S", 0.0)
    assert both.call("PUT", FORGOTTEN, wanted).json() == {**NONE, "emails_forgotten": 1, "emails_left": 5}
    monkeypatch.setattr("weir.api.operations.users.WITHIN_S", 60.0)
    assert both.call("PUT", FORGOTTEN, wanted).json() == {**NONE, "emails_forgotten": 5, "emails_cancelled": 5}


def test_their_effects_are_forgotten_too_if_the_token_may(program: Program) -> None:
    """Those that have ended; the others are told of, and other users' are left alone."""
    ended, waits = (queueing.once(BLIND, key, user=USER, context=KIMS) for key in ("1", "2"))
    other = queueing.once(BLIND, "3", user=USER + 1, context=KIMS)
    for effect in (ended, other):
        resolving.resolve(effect.pk, Act.CANCEL, "Ada", "The order is kept.")
    wanted = {"why": "Asked", "effects": True}
    refused = program.call("PUT", FORGOTTEN, wanted)
    assert (refused.status_code, "weir_effects.resolve_effect" in refused.text) == (403, True)
    assert Notification.objects.filter(user_id=USER).exists(), "neither part is done"
    both = Program(token("weir_notifications.add_forgottenuser", "weir_effects.resolve_effect", name="both"))
    assert both.call("PUT", FORGOTTEN, wanted).json() == {**NONE, "effects_forgotten": 1, "effects_left": 1}
    assert both.call("PUT", FORGOTTEN, {"why": "Asked"}).json() == NONE
    for effect in (ended, waits, other):
        effect.refresh_from_db()
    assert [effect.context for effect in (ended, waits, other)] == [{}, KIMS, KIMS]
    assert Entry.objects.filter(action="effects.forget", actor="both", why="Asked").count() == 1
