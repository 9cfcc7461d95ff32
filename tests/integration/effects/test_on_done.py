"""on_done of an effect: its task is called for each of its ends, at least once, whoever ends it."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from tests.cases import for_each
from tests.integration.conftest import Message, database_now
from tests.integration.plans import explain
from tests.payments import PaymentApi
from tests.refunds import BLIND, queue
from weir.workers.effects import on_done, queueing, resolving
from weir.workers.effects.maintenance import stepping
from weir.workers.effects.models import OWES_CALL, Act, Effect
from weir.workers.effects.performing import runner
from weir.workers.effects.reports import why
from weir.workers.on_done import unknown

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["weir.workers.audit", "weir.workers.effects"])
TASK = "elsewhere.refunded"
HOUR = timedelta(hours=1)


@pytest.fixture
def calls(messages: list[Message]) -> Callable[[], list[Any]]:
    """Return a function that performs what is due, and returns the effects whose tasks were called since."""

    def look() -> list[Any]:
        runner.perform_due()
        found = [argument for task, (*arguments,) in messages if task == TASK for argument in arguments]
        messages.clear()
        return found

    return look


def asked(api: PaymentApi, word: str = "plain", **options: Any) -> int:
    """Queue a refund that calls TASK; return its id."""
    return queue(BLIND, api.port, word, on_done=TASK, **options).pk


def is_due() -> bool:
    """Return whether beat would send the tick for the sake of calls."""
    [answer] = on_done.CALLS_DUE()
    return answer


@for_each(("word", "acts"), [("plain", []), ("decline", []), ("cut-done", [Act.DONE]), ("cut-done", [Act.GIVE_UP])])
def test_it_is_called_once_at_the_end_and_not_while_that_is_unknown(
    api: PaymentApi, calls: Callable[[], list[Any]], word: str, acts: list[Act]
) -> None:
    effect = asked(api, word)
    assert calls() == ([] if acts else [effect])
    Effect.objects.filter(state="unknown").update(ended_at=database_now() - 2 * on_done.OVERDUE)
    assert [is_due(), calls()] == [False, []]
    for act in acts:
        resolving.resolve(effect, act, "ada", "The provider says so.")
    assert calls() == ([effect] if acts else [])
    assert [calls(), is_due(), Effect.objects.owing_calls().count()] == [[], False, 0]


def test_it_is_called_when_it_was_cancelled_or_has_expired(api: PaymentApi, calls: Callable[[], list[Any]]) -> None:
    later = timezone.now() + HOUR
    cancelled, expired = asked(api, not_before=later), asked(api, not_before=later, expires_at=later + HOUR)
    assert calls() == []
    Effect.objects.filter(pk=expired).update(expires_at=database_now())
    assert calls() == [expired]
    with transaction.atomic():
        resolving.resolve(cancelled, Act.CANCEL, "ada", "The order is kept.")
        transaction.set_rollback(True)
    assert calls() == []
    resolving.resolve(cancelled, Act.CANCEL, "ada", "The order is kept.")
    assert calls() == [cancelled]


def test_each_end_is_told(api: PaymentApi, calls: Callable[[], list[Any]]) -> None:
    """A person has it done again, and it ends again."""
    effect = asked(api, "decline")
    assert calls() == [effect]
    resolving.resolve(effect, Act.AGAIN, "ada", "The card works now.")
    assert calls() == [effect]


def test_a_call_that_was_lost_is_made_again(
    api: PaymentApi, calls: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the broker was away; or the process was killed before it had recorded the call."""
    effect = asked(api)
    with monkeypatch.context() as away:
        away.setattr(on_done, "call", lambda *_arguments, **_headers: False)
        assert calls() == []
    assert not is_due()  # whoever ended it may be about to call
    Effect.objects.update(ended_at=database_now() - 2 * on_done.OVERDUE)
    assert [is_due(), calls(), is_due(), calls()] == [True, [effect], False, []]


def test_a_worker_that_does_not_know_the_task_has_it_called_later(
    api: PaymentApi, calls: Callable[[], list[Any]]
) -> None:
    effect = asked(api)
    assert calls() == [effect]
    rejected: list[object] = []
    consumer = SimpleNamespace(on_unknown_task=lambda *message: rejected.append(message))
    unknown.keep_calls(consumer, on_done.HEADER, on_done.record)
    consumer.on_unknown_task(None, SimpleNamespace(headers={on_done.HEADER: effect, "task": TASK}), KeyError())
    [kept] = why(Effect.objects.get())
    assert (len(rejected), kept.what, TASK in kept.text) == (1, "on_done", True)
    assert [is_due(), calls()] == [False, []]
    stepping.put_right(step=-HOUR)  # the clock was set back: it is not put off for that
    Effect.objects.update(ended_at=database_now() - HOUR)
    assert [is_due(), calls(), is_due()] == [True, [effect], False]


def test_a_task_that_no_app_has_is_refused_and_one_of_elsewhere_is_not() -> None:
    for name, error in ((17, TypeError), ("a\0b", ValueError)):
        with pytest.raises(error, match="on_done"):
            queueing.once(BLIND, "17", on_done=name)  # type: ignore[arg-type]
    assert not Effect.objects.exists()


def test_owed_calls_are_found_by_index() -> None:
    """Among many effects that have ended, without statistics."""
    past = database_now() - HOUR
    rows = [Effect(kind=BLIND, key=str(n), state="done", done_at=past, ended_at=past) for n in range(2_000)]
    Effect.objects.bulk_create(rows)
    overdue = Effect.objects.filter(OWES_CALL, ended_at__lt=past).order_by("ended_at").values("pk")
    sql, parameters = overdue.query.sql_with_params()
    assert {node.get("Index Name") for node in explain(sql, parameters)} == {"weir_effect_owes_call"}  # type: ignore[arg-type]
