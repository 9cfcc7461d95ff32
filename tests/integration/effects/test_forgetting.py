"""forget_effects: what effects say about a user goes, and none is done again."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import transaction
from django.db.models.functions import Now

from tests.cases import for_each
from tests.integration.plans import plan_of
from tests.payments import PaymentApi
from tests.refunds import BLIND, PROBED, queue
from weir.workers.audit.models import Door, Entry
from weir.workers.beat.work import SentTicks
from weir.workers.effects import listing, queueing, resolving, tasks
from weir.workers.effects.listing import EffectFilters
from weir.workers.effects.maintenance import forgetting
from weir.workers.effects.maintenance.forgetting import Forgotten, forget_user
from weir.workers.effects.models import Act, Effect, EffectResolution
from weir.workers.effects.performing import runner
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.ledger.outcomes import Outcome
from weir.workers.ledger.resolving import CannotBeResolved
from weir.workers.task_names import PURGE_EFFECTS

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["weir.workers.audit", "weir.workers.effects"])
KIM = "kim@customers.example"
PROOF = ("kind", "key", "state", "reference", "idempotency_key", "created_at", "done_at", "ended_at", "attempts")
ENDED: dict[str, dict[str, Any]] = {
    "done": {"done_at": Now(), "last_reply": f"ok {KIM}", "result": {"to": KIM}, "reference": "re-1"},
    "failed": {"last_reply": f"no {KIM}", "phase": "begun"},
    "cancelled": {},
    "expired": {"last_reply": f"late {KIM}", "earlier_reply": KIM},
}
UNKNOWN: dict[str, Any] = {"phase": "begun", "last_reply": "cut", "claim_token": uuid4(), "begun_at": Now()}


def concerning(key: str, user: str | int | UUID | None = KIM, kind: str = BLIND, **fields: Any) -> Effect:
    """Queue an effect of this user, with these fields."""
    effect = queueing.once(kind, key, context={"port": 1, "order": KIM}, user=user)
    ended = {"ended_at": Now()} if fields.get("state") in {*ENDED, "unknown"} else {}
    Effect.objects.filter(pk=effect.pk).update(**fields, **ended)
    effect.refresh_from_db()
    return effect


def traces() -> str:
    """Return all that the tables of effects and the audit trail say, as text."""
    return json.dumps(
        [*Effect.objects.values(), *EffectResolution.objects.values(), *Entry.objects.values()], default=str
    )


@pytest.mark.parametrize("state", ENDED)
def test_of_what_ended_the_proof_stays_and_nothing_personal(state: str) -> None:
    effect = concerning("1", state=state, **ENDED[state])
    proof = {name: getattr(effect, name) for name in PROOF}
    assert forget_user(KIM, "Ada", f"{KIM} asked") == Forgotten(forgotten=1, left=0)
    effect.refresh_from_db()
    assert {name: getattr(effect, name) for name in PROOF} == proof
    assert (effect.user_key, effect.context, effect.result, effect.forgotten_at is None) == ("", {}, None, False)
    assert KIM not in traces()
    assert forget_user(KIM, "Ada", "asked") == Forgotten(forgotten=0, left=0), "it may be repeated"


def test_what_was_forgotten_is_not_done_again(api: PaymentApi) -> None:
    """Neither by `once` nor by a person, who has no context to do it with any more."""
    effect = queue(BLIND, api.port, user=8)
    runner.perform_due()
    forget_user(8, "Ada", "asked")
    again = queueing.once(BLIND, effect.key, context={"port": api.port, "order": effect.key}, user=8)
    runner.perform_due()
    assert (again.pk, again.state, api.refunds()[effect.key]) == (effect.pk, "done", 1)
    cancelled = concerning("2", state="cancelled")
    forget_user(KIM, "Ada", "asked")
    with pytest.raises(CannotBeResolved, match="was forgotten with its user"):
        resolving.resolve(cancelled.pk, Act.AGAIN, "Ada", "The order is back.")


@pytest.mark.parametrize(
    ("state", "fields", "act"),
    [
        ("pending", {}, Act.CANCEL),
        ("pending", {"ask_until": Now()}, None),
        ("claimed", {"claim_token": uuid4(), "claimed_until": Now()}, Act.CANCEL),
        ("begun", {"claim_token": uuid4(), "claimed_until": Now(), "begun_at": Now()}, None),
        ("unknown", UNKNOWN, Act.DONE),
    ],
)
def test_what_has_not_ended_is_untouched_and_forgotten_after_its_end(
    state: str, fields: dict[str, Any], act: Act | None
) -> None:
    """By the purge, for which beat sends a tick as soon as there is something to forget."""
    effect = concerning("1", kind=PROBED, state=state, **fields)
    assert forget_user(KIM, "Ada", "asked") == Forgotten(forgotten=0, left=1)
    tasks.purge_effects()
    effect.refresh_from_db()
    assert (effect.state, effect.user_key, effect.context) == (state, KIM, {"port": 1, "order": KIM})
    assert SentTicks().is_needless("weir: purge effects", PURGE_EFFECTS)
    if act is None:
        ended = {"state": "done", "claim_token": None, "claimed_until": None, "begun_at": None, "ask_until": None}
        Effect.objects.update(**ended, done_at=Now(), ended_at=Now(), result={"to": KIM})
    else:
        resolving.resolve(effect.pk, act, "Bob", f"{KIM} called")
    assert not SentTicks().is_needless("weir: purge effects", PURGE_EFFECTS)
    tasks.purge_effects()
    effect.refresh_from_db()
    assert (effect.user_key, effect.context, effect.result) == ("", {}, None)
    assert KIM not in traces()
    if act:
        assert effect.resolutions.get().why == "<user> called"
    assert KIM not in traces()
    assert SentTicks().is_needless("weir: purge effects", PURGE_EFFECTS)


def test_what_its_task_was_not_told_yet_stays_until_then() -> None:
    """The task of `on_done` reads the result."""
    effect = concerning("1", state="done", on_done="elsewhere.refunded", **ENDED["done"])
    assert forget_user(KIM, "Ada", "asked") == Forgotten(forgotten=0, left=1)
    Effect.objects.filter(pk=effect.pk).update(on_done_called_at=Now())
    assert forgetting.finish() == 1


def test_an_outcome_that_comes_late_is_forgotten_too() -> None:
    """A worker that was given up for lost says what the other side has answered."""
    effect = concerning("1", state="unknown", **UNKNOWN)
    resolving.resolve(effect.pk, Act.GIVE_UP, "Ada", "Nobody knows.")
    assert forget_user(KIM, "Ada", "asked").forgotten == 1
    late = Outcome(state="done", last_reply=KIM, attempts=1, own={"result": json.dumps({"to": KIM})})
    LEDGER.record(effect, late)
    assert KIM in traces()
    tasks.purge_effects()
    effect.refresh_from_db()
    assert (effect.state, effect.result, KIM in traces()) == ("done", None, False)


def test_others_and_those_without_a_user_are_left_alone() -> None:
    """A key is the whole text; a number in a reason is not taken for the key."""
    mine = concerning("1", user=8, state="unknown", **UNKNOWN)
    others = [
        concerning(str(key), user=user, state="cancelled") for key, user in enumerate((88, "8 ", None, uuid4()), 2)
    ]
    resolving.resolve(mine.pk, Act.DONE, "Ada", "It was 8 EUR")
    assert forget_user("8", "Ada", "asked") == Forgotten(forgotten=1, left=0)
    assert forgetting.finish() == 0
    assert EffectResolution.objects.get().why == "It was 8 EUR"
    for effect in others:
        effect.refresh_from_db()
        assert effect.context, effect
    for nobody in ("", " "):
        with pytest.raises(ValueError, match="The key of a user"):
            forget_user(nobody, "Ada", "asked")


@for_each("user", [True, 1.5, object(), b"8", ["8"]])
def test_a_user_is_named_by_a_key(user: Any) -> None:
    """An object would be found by its name, or not at all."""
    with pytest.raises(TypeError, match="such as user"):
        queueing.once(BLIND, "1", user=user)
    assert not Effect.objects.exists()


def test_a_key_that_cannot_be_stored_is_refused() -> None:
    for user in ("", "x" * 256, "a\0b", "\ud800"):
        with pytest.raises(ValueError, match="The key of a user"):
            queueing.once(BLIND, "1", user=user)
    assert concerning("1", user="x" * 255).user_key == "x" * 255


def test_the_act_is_kept_with_a_hash() -> None:
    forget_user(KIM, " Ada ", "Request 4711")
    entry = Entry.objects.get()
    assert (entry.action, entry.actor, entry.door, entry.why) == ("effects.forget", "Ada", Door.CODE, "Request 4711")
    assert len(entry.target) == len("user ") + 64


@for_each(("who", "why"), [("", "x"), ("Ada", " ")])
def test_without_who_and_why_nothing_is_forgotten(*, who: str, why: str) -> None:
    concerning("1", state="cancelled")
    with pytest.raises(ValueError, match="Say who"):
        forget_user(KIM, who, why)
    assert (Effect.objects.get().user_key, Entry.objects.count()) == (KIM, 0)


def test_it_goes_batch_by_batch_and_not_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "BATCH", 2)
    for number in range(5):
        concerning(str(number), state="cancelled")
    concerning("waits")
    with transaction.atomic(), pytest.raises(RuntimeError):
        forget_user(KIM, "Ada", "asked")
    assert not Entry.objects.exists()
    assert forget_user(KIM, "Ada", "asked") == Forgotten(forgotten=5, left=1)


def test_the_command_says_what_is_left_and_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    concerning("1", state="cancelled")
    waits = concerning("2")
    concerning("3", user=8)
    call_command("effects", "forget", KIM, "--who", "Ada", "--why", "asked")
    assert capsys.readouterr().out.strip() == (
        "Effects forgotten: 1. Not ended, and forgotten after their end: 1 (`effects list --user`)."
    )
    call_command("effects", "list", "--state", "pending", "--user", KIM, "--json")
    [listed] = json.loads(capsys.readouterr().out)["effects"]
    assert (listed["id"], listed["user"], listed["forgotten_at"] is None) == (waits.pk, KIM, False)
    assert [effect.pk for effect in listing.page(EffectFilters(user=KIM)).rows] == [waits.pk]


def test_what_is_to_be_forgotten_is_found_by_index() -> None:
    """However many effects name no user, and however many of a user have not ended."""
    of_all = {"kind": BLIND, "state": "done", "done_at": Now(), "ended_at": Now(), "context": {"said": "x" * 1_000}}
    Effect.objects.bulk_create([Effect(**of_all, key=str(number)) for number in range(2_000)])
    cases: list[tuple[str, dict[str, object], str]] = [
        ("mark_forgotten", {"user": KIM, "after": 0, "batch": 10}, "weir_effect_user"),
        ("forget", {"user": KIM, "batch": 10, "instead": "-"}, "weir_effect_to_forget"),
        ("forget", {"user": None, "batch": 10, "instead": "-"}, "weir_effect_to_forget"),
        ("is_to_forget", {}, "weir_effect_to_forget"),
    ]
    for name, parameters, index in cases:
        nodes = plan_of("weir.workers.effects", name, parameters)
        assert index in {node.get("Index Name") for node in nodes}, name
        assert "weir_effects_effect" not in {each["Relation Name"] for each in nodes if each["Node Type"] == "Seq Scan"}
