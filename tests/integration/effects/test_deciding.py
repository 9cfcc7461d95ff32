"""What people decide about effects, by commands and from code; each act is in the audit trail."""

import json
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from pytest_django import Settings

from tests.cases import for_each
from tests.payments import PaymentApi
from tests.refunds import BLIND, KEYED, PROBED, queue
from weir import EffectAct, resolve_effect
from weir.workers.audit.acting import Actor, NotPermitted
from weir.workers.audit.models import Door, Entry
from weir.workers.effects import actions, checks, kinds, resolving
from weir.workers.effects.maintenance import stepping
from weir.workers.effects.models import Act, Effect
from weir.workers.effects.performing import runner
from weir.workers.effects.performing.attempts import EffectAttempt, perform
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.ledger.outcomes import Outcome

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["weir.workers.audit", "weir.workers.effects"])
SAID = ("--who", "ada", "--why", "The provider says so.")


def unknown(api: PaymentApi, word: str = "cut-done") -> Effect:
    """Return an effect that is unknown."""
    effect = queue(BLIND, api.port, word)
    runner.perform_due()
    effect.refresh_from_db()
    assert effect.state == "unknown"
    return effect


def begun(kind: str, api: PaymentApi) -> Effect:
    """Return an effect that this process has begun."""
    queue(kind, api.port)
    [claimed] = LEDGER.claim(1, uuid4(), {kind: True})
    EffectAttempt(claimed, kinds.get(kind)).begin()
    return claimed


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def show(*words: str) -> str:
        capsys.readouterr()
        call_command("effects", *words)
        return capsys.readouterr().out

    return show


@for_each(("option", "state", "refunds"), [("--done", "done", 1), ("--give-up", "failed", 1), ("--again", "done", 2)])
def test_a_person_decides_about_what_is_unknown(
    api: PaymentApi, shown: Callable[..., str], option: str, state: str, refunds: int
) -> None:
    """To do it again is their risk: here the API had done it, and keeps no key of it any more."""
    effect = unknown(api)
    assert f"manage.py effects resolve {effect.pk} --done" in shown("show", str(effect.pk))
    assert effect.key in shown("list")
    api.forget_keys()
    assert shown("resolve", str(effect.pk), option, *SAID).startswith(f"Effect {effect.pk}: it")
    runner.perform_due()
    effect.refresh_from_db()
    assert (effect.state, api.refunds()[effect.key]) == (state, refunds)
    entry = Entry.objects.latest("pk")
    assert (entry.actor, entry.target, entry.before) == (
        "ada",
        f"effect {effect.pk}",
        {"state": "unknown", "phase": "begun"},
    )
    assert "ada" in shown("show", str(effect.pk))


def test_an_unknown_one_that_is_done_again_keeps_its_key_and_a_failed_one_gets_another(api: PaymentApi) -> None:
    """An API that still has the key answers as before: nothing happens twice. It would also repeat a refusal.

    One that was given up may have happened, too.
    """
    for acts in ([Act.AGAIN], [Act.GIVE_UP, Act.AGAIN]):
        effect = unknown(api)
        for act in acts:
            resolving.resolve(effect.pk, act, "ada", "Nobody has it.")
        runner.perform_due()
        assert (api.refunds()[effect.key], Effect.objects.get(pk=effect.pk).state) == (1, "done")
    declined = queue(BLIND, api.port, "decline")
    runner.perform_due()
    again = resolving.resolve(declined.pk, Act.AGAIN, "ada", "The card works now.")
    assert (again.state, again.idempotency_key != declined.idempotency_key) == ("pending", True)


def test_what_code_decides_in_a_persons_name_is_in_the_audit_trail(api: PaymentApi, settings: Settings) -> None:
    """Code decides itself who may: that operators change nothing now does not concern it."""
    settings.WEIR_OPS_READ_ONLY = True
    effect = unknown(api)
    resolve_effect(effect.pk, EffectAct.GIVE_UP, " ada ", "The customer was called.")
    entry = Entry.objects.get()
    assert (entry.actor, entry.door, entry.action, entry.why) == (
        "ada",
        "code",
        "effects.give_up",
        "The customer was called.",
    )
    assert entry.target == f"effect {effect.pk}"
    assert [(change.name, change.was, change.became) for change in entry.changes] == [("state", "unknown", "failed")]
    with pytest.raises(ValueError, match="Say who"):
        resolve_effect(effect.pk, EffectAct.AGAIN, "ada", " ")
    assert Entry.objects.count() == 1


def test_what_cannot_be_decided_is_refused_with_a_sentence(api: PaymentApi) -> None:
    effect = queue(BLIND, api.port)
    for words, sentence in {
        ("resolve", str(effect.pk), "--done", *SAID): "only unknown ones can have happened",
        ("resolve", "99999", "--done", *SAID): "There is no effect 99999",
        ("pause", "test.no", *SAID): "There is no kind of effect 'test.no'",
        ("resume", BLIND, *SAID): f"{BLIND} is not paused",
        ("show", "99999"): "There is no effect 99999",
    }.items():
        with pytest.raises(CommandError, match=sentence):
            call_command("effects", *words)
    lost = unknown(api)
    with pytest.raises(CommandError, match="has no probe"):
        call_command("effects", "resolve", str(lost.pk), "--ask", *SAID)
    with pytest.raises(CommandError, match="was changed meanwhile"):
        call_command("effects", "resolve", str(lost.pk), "--done", "--seen", "another", *SAID)


def test_nothing_is_begun_of_a_paused_kind(api: PaymentApi, shown: Callable[..., str]) -> None:
    shown("pause", BLIND, *SAID)
    effect = queue(BLIND, api.port)
    runner.perform_due()
    assert "has paused the kind" in shown("show", str(effect.pk))
    assert "The provider says so." in shown("kinds")
    [paused] = [each for each in json.loads(shown("kinds", "--json"))["kinds"] if each["kind"] == BLIND]
    assert paused["paused"]["who"] == "ada"
    shown("resume", BLIND, *SAID)
    runner.perform_due()
    assert api.refunds()[effect.key] == 1
    assert [*Entry.objects.order_by("pk").values_list("action", flat=True)] == [
        "effects.pause_kind",
        "effects.resume_kind",
    ]


def test_a_late_answer_counts_whatever_was_decided_meanwhile(api: PaymentApi) -> None:
    """Its worker was taken for dead, and a person gave the effect up."""
    effect = begun(BLIND, api)
    Effect.objects.update(claimed_until=Now())
    runner.sweep()
    resolving.resolve(effect.pk, Act.GIVE_UP, "ada", "Nobody knows.")
    effect.ask_until = None
    perform(effect)  # its begin is refused
    assert Effect.objects.get().state == "failed"
    answer = Outcome(state="done", last_reply="It returned.", attempts=1, own={"result": '"late"'})
    assert LEDGER.record(effect, answer)
    assert (Effect.objects.get().state, Effect.objects.get().result) == ("done", "late")


def test_leases_move_with_a_clock_that_is_stepped(api: PaymentApi) -> None:
    effect = begun(PROBED, api)
    effect.refresh_from_db()
    until = effect.claimed_until
    stepping.put_right(step=timedelta(hours=1))
    effect.refresh_from_db()
    assert until is not None
    assert effect.claimed_until == until + timedelta(hours=1)


def test_kinds_whose_times_do_not_fit_are_reported(settings: Settings) -> None:
    settings.WEIR_EFFECT_UNKNOWN_AFTER = 1.0
    assert {(found.id, PROBED in found.msg) for found in checks.no_probe_asks_too_early()} == {("weir.E042", True)}
    assert checks.keys_are_kept_for_long_enough() == []
    settings.WEIR_EFFECT_UNKNOWN_AFTER = 90_000.0
    assert checks.no_probe_asks_too_early() == []
    assert {(found.id, KEYED in found.msg) for found in checks.keys_are_kept_for_long_enough()} == {("weir.W044", True)}


def test_a_retention_after_which_a_repeated_call_may_come_is_reported(settings: Settings) -> None:
    found = []
    for retention in (0.0, 3_600.0, 90_000.0):
        settings.WEIR_EFFECT_RETENTION = retention
        found.append([each.id for each in checks.effects_are_kept_for_long_enough()])
    assert found == [[], ["weir.W047"], []]


def test_who_may_not_act_is_refused(api: PaymentApi) -> None:
    nobody = Actor(name="eve", door=Door.PAGE, may=lambda _permission: False)
    effect = unknown(api)
    with pytest.raises(NotPermitted):
        actions.resolve(nobody, effect.pk, Act.DONE, why="Why not?")
    assert not Entry.objects.exists()
