"""What a call says, and what becomes of the effect; judged by the payment API's own book."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests import refunds
from tests.cases import for_each
from tests.payments import PaymentApi
from tests.refunds import BLIND, KEYED, PROBED, queue
from weir.workers.effects import kinds, queueing
from weir.workers.effects.answers import Done, NotDone
from weir.workers.effects.kinds import UnknownEffectKind
from weir.workers.effects.models import Effect
from weir.workers.effects.performing import runner
from weir.workers.effects.performing.attempts import LONGEST_WAIT_S, EffectAttempt, perform
from weir.workers.effects.performing.leases import LEDGER
from weir.workers.ledger.claiming import ClaimLost

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["weir.workers.effects"])
SAYS: dict[str, object] = {}


@kinds.register("test.says")
def says(attempt: EffectAttempt, *, begins: bool = True) -> object:
    """Do as the test says."""
    if begins:
        attempt.begin()
    said = SAYS["now"]
    if isinstance(said, Exception):
        raise said
    return said


def attempted(said: object, *, begins: bool = True) -> Effect:
    """Return what one attempt makes of a new effect whose call says this: earlier ones, which may be due, are gone."""
    SAYS["now"] = said
    Effect.objects.all().delete()
    effect = queueing.once("test.says", str(uuid4()), context={"begins": begins})
    runner.perform_due(1)
    effect.refresh_from_db()
    return effect


def made_due(effect: Effect) -> Effect:
    """Let no time pass until its next attempt or question."""
    Effect.objects.filter(pk=effect.pk).update(next_attempt_at=Now())
    return effect


def performed(effect: Effect, times: int = 1) -> Effect:
    """Return what becomes of it in as many attempts and questions."""
    for _ in range(times):
        made_due(effect)
        runner.perform_due(1)
    effect.refresh_from_db()
    return effect


def test_there_is_one_effect_for_each_kind_and_key() -> None:
    first = queueing.once("test.says", "17", context={"begins": True})
    again = queueing.once("test.says", "17", context={"begins": False})
    assert (again.pk, again.context) == (first.pk, {"begins": True})
    with transaction.atomic():
        queueing.once("test.says", "18")
        transaction.set_rollback(True)
    assert not Effect.objects.filter(key="18").exists()


def test_a_call_returns_the_effect_as_it_is_stored() -> None:
    """Without another look at the row, for a new one."""
    for key, options in (("17", {}), ("18", {"expires_at": timezone.now() + timedelta(days=1), "priority": 3})):
        effect = queueing.once("test.says", key, context={"begins": True}, **options)  # type: ignore[arg-type]
        stored = Effect.objects.values().get(pk=effect.pk)
        assert {name: getattr(effect, name) for name in stored} == stored


def test_a_call_for_an_effect_that_exists_may_come_after_its_time() -> None:
    """A task that runs again says what it said the first time."""
    first = queueing.once("test.says", "17")
    assert queueing.once("test.says", "17", expires_at=timezone.now() - timedelta(days=1)).pk == first.pk


@for_each(
    ("key", "options", "error"),
    [
        ("", {}, "The key of an effect has 1 to 100 characters"),
        ("17", {"context": {"order": object()}}, "The context must be JSON"),
        ("17", {"priority": 1000}, "The priority is -100 to 100"),
        ("17", {"expires_at": timezone.now() - timedelta(days=1)}, "expires_at is past"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_stored(key: str, options: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        queueing.once("test.says", key, **options)  # type: ignore[arg-type]
    assert not Effect.objects.exists()


def test_a_kind_that_no_app_registers_is_refused() -> None:
    with pytest.raises(UnknownEffectKind, match=r"test\.says"):
        queueing.once("test.say", "17")


@for_each(
    ("said", "begins", "state", "reply"),
    [
        ({"id": "re_1"}, True, "done", "It returned."),
        (Done({"id": "re_1"}, reference="re_1"), True, "done", "It returned."),
        (object(), True, "done", "its result is not kept"),
        (Done(reference=4711), True, "done", "It returned."),  # type: ignore[arg-type]
        (NotDone("declined", retry=False), True, "failed", "declined"),
        (NotDone("busy", retry=True), True, "pending", "busy"),
        (NotDone("bad", retry=False), False, "failed", "bad"),
        (ZeroDivisionError("too early"), False, "pending", "ZeroDivisionError: too early"),
        (TimeoutError("no answer"), True, "unknown", "TimeoutError: no answer"),
        ({"id": "re_1"}, False, "unknown", "returned without attempt.begin()"),
    ],
)
def test_what_a_call_says_decides(said: object, begins: bool, state: str, reply: str) -> None:
    """What says for certain that nothing happened is tried again or fails; anything else after `begin` is unknown."""
    effect = attempted(said, begins=begins)
    assert (effect.state, effect.attempts) == (state, 1)
    assert reply in effect.last_reply


@for_each("after_s", ["120", None, "Tue, 1 Dec 2026 08:00:00 GMT", -1, 1e400, float("nan"), 1_764_525_600_000])
def test_any_time_that_the_other_side_gives_for_the_next_attempt_is_bounded(after_s: Any) -> None:
    """Headers have seconds, dates, or milliseconds since 1970: of a time after the year 9999, no row could be read."""
    effect = attempted(NotDone("busy", retry=True, retry_after_s=after_s))
    assert (effect.state, effect.attempts) == ("pending", 1)
    assert effect.next_attempt_at - timezone.now() < timedelta(seconds=LONGEST_WAIT_S)
    if after_s == "120":
        assert effect.next_attempt_at - timezone.now() > timedelta(seconds=110)


def test_a_function_that_would_never_run_is_refused() -> None:
    async def later(_attempt: EffectAttempt) -> None:
        """Do something."""

    with pytest.raises(ValueError, match="not `async def`"):
        kinds.register("test.later")(later)


def test_a_result_is_kept_with_the_name_that_the_other_side_gave() -> None:
    effect = attempted(Done({"id": "re_1"}, reference="re_1"))
    assert (effect.result, effect.reference) == ({"id": "re_1"}, "re_1")


@for_each("word", ["cut-done", "cut-undone", "stall", "error-done"])
def test_a_key_settles_what_is_unknown(api: PaymentApi, word: str) -> None:
    effect = performed(queue(KEYED, api.port, word))
    assert effect.state == "pending"
    assert effect.ask_until is not None
    assert performed(effect).state == "done"
    assert api.refunds()[effect.key] == 1


def test_a_key_is_not_used_when_the_other_side_may_have_forgotten_it(api: PaymentApi) -> None:
    effect = performed(queue(KEYED, api.port, "cut-done"))
    Effect.objects.update(ask_until=Now())
    api.forget_keys()
    assert performed(effect).state == "unknown"
    assert api.refunds()[effect.key] == 1


@for_each("word", ["cut-done", "cut-undone", "stall", "error-done"])
def test_a_probe_settles_what_is_unknown(api: PaymentApi, word: str) -> None:
    effect = queue(PROBED, api.port, word)
    runner.perform_due(1)
    effect.refresh_from_db()
    assert effect.state == "pending"
    assert effect.next_attempt_at > timezone.now() + timedelta(seconds=refunds.SETTLES_S / 2)  # nothing is in flight
    assert performed(effect, times=2).state == "done"
    assert api.refunds()[effect.key] == 1


def test_a_probe_that_fails_is_asked_again_and_in_the_end_a_person_is(
    api: PaymentApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect = performed(queue(PROBED, api.port, "cut-done"))

    def refuse(_port: int, _order: str) -> int:
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr("tests.payments.refunds", refuse)
    effect = performed(effect)
    assert (effect.state, effect.attempts) == ("pending", 1)
    assert "nobody is there" in effect.last_reply
    Effect.objects.update(ask_until=Now())
    effect = performed(effect)
    assert effect.state == "unknown"
    assert "nobody is there" in effect.last_reply


@for_each(("kind", "state"), [(BLIND, "unknown"), (KEYED, "done"), (PROBED, "done")])
def test_what_a_dead_worker_had_begun_is_asked_about_or_unknown(api: PaymentApi, kind: str, state: str) -> None:
    effect = queue(kind, api.port)
    [claimed] = LEDGER.claim(1, uuid4(), {kind: True})
    EffectAttempt(claimed, kinds.get(kind)).begin()
    runner.perform_due()
    effect.refresh_from_db()
    assert effect.state == "begun"  # it may still be at work
    Effect.objects.filter(pk=effect.pk).update(claimed_until=Now())
    runner.sweep()
    assert performed(effect, times=2).state == state
    assert api.refunds()[effect.key] == (state == "done")


def test_what_kills_its_worker_before_begin_fails_in_the_end(api: PaymentApi, settings: Settings) -> None:
    """Or else it would kill one worker after the other, and what these do beside it would be unknown."""
    settings.WEIR_EFFECT_MAX_ATTEMPTS = 3
    effect = queue(BLIND, api.port)
    for number in (1, 2, 3):
        assert LEDGER.claim(1, uuid4(), {BLIND: True})
        Effect.objects.filter(pk=effect.pk).update(claimed_until=Now())
        runner.sweep()
        effect.refresh_from_db()
        assert (effect.state, effect.attempts) == ("pending", number)
    assert performed(effect).state == "failed"
    assert effect.last_reply == "Given up after 3 attempts: The worker that had claimed it died before it began it."
    assert api.refunds()[effect.key] == 0


@for_each(("kind", "state"), [(KEYED, "unknown"), (PROBED, "done")])
def test_a_probe_is_asked_even_if_no_worker_ran_for_long(api: PaymentApi, kind: str, state: str) -> None:
    """It only reads. A key may be forgotten by then."""
    effect = queue(kind, api.port)
    [claimed] = LEDGER.claim(1, uuid4(), {kind: True})
    EffectAttempt(claimed, kinds.get(kind)).begin()
    api.refund(effect.key)
    Effect.objects.filter(pk=effect.pk).update(claimed_until=Now(), ask_until=Now())
    runner.sweep()
    assert performed(effect).state == state
    assert api.refunds()[effect.key] == 1


def test_a_worker_that_has_lost_its_claim_sends_nothing(api: PaymentApi, settings: Settings) -> None:
    effect = queue(BLIND, api.port)
    settings.WEIR_EFFECT_LEASE = 0.001
    [slow] = LEDGER.claim(1, uuid4(), {BLIND: True})
    settings.WEIR_EFFECT_LEASE = 60.0
    assert performed(effect).state == "done"
    assert perform(slow) is None
    with pytest.raises(ClaimLost):
        EffectAttempt(slow, kinds.get(BLIND)).begin()
    assert api.refunds()[effect.key] == 1


@for_each(("kind", "state"), [(BLIND, "unknown"), (KEYED, "unknown"), (PROBED, "done")])
def test_only_a_probe_is_asked_after_the_effect_has_expired(api: PaymentApi, kind: str, state: str) -> None:
    effect = performed(queue(kind, api.port, "cut-done", expires_at=timezone.now() + timedelta(hours=1)))
    Effect.objects.filter(pk=effect.pk).update(expires_at=Now())
    assert performed(effect).state == state
    waiting = queue(kind, api.port, expires_at=timezone.now() + timedelta(hours=1))
    Effect.objects.filter(pk=waiting.pk).update(expires_at=Now())
    assert performed(waiting).state == "expired"
    assert (api.refunds()[effect.key], api.refunds()[waiting.key]) == (1, 0)


def test_begin_inside_a_transaction_is_refused(api: PaymentApi) -> None:
    """It would not be committed before the first byte."""
    effect = queue(BLIND, api.port)
    [claimed] = LEDGER.claim(1, uuid4(), {BLIND: True})
    with pytest.raises(transaction.TransactionManagementError), transaction.atomic():
        EffectAttempt(claimed, kinds.get(BLIND)).begin()
    assert api.refunds()[effect.key] == 0
