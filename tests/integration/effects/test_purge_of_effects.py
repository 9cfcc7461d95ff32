"""Effects are deleted after their retention, unless they are unknown; then `once` does them again."""

from datetime import timedelta

import pytest
from django.db.models import F
from pytest_django import Settings

from tests.cases import for_each
from tests.integration.conftest import database_now
from tests.integration.plans import plan_of
from tests.payments import PaymentApi
from tests.refunds import BLIND, queue
from weir.workers.beat.work import SentTicks
from weir.workers.effects import queueing, resolving, tasks
from weir.workers.effects.maintenance import purge
from weir.workers.effects.models import Act, Effect, EffectResolution
from weir.workers.effects.performing import runner
from weir.workers.task_names import PURGE_EFFECTS

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["weir.workers.audit", "weir.workers.effects"])
DAY = timedelta(days=1)


def age(by: timedelta) -> None:
    """Let all effects be older."""
    Effect.objects.update(ended_at=F("ended_at") - by)


@pytest.fixture
def _retained(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep effects for a day; the broker is away."""
    settings.WEIR_EFFECT_RETENTION = DAY.total_seconds()
    monkeypatch.setattr("weir.workers.effects.on_done.call", lambda *_arguments, **_headers: False)


def test_effects_are_kept_for_ever_unless_it_is_said(api: PaymentApi, settings: Settings) -> None:
    """Beat sends no tick for that."""
    effect = queue(BLIND, api.port)
    runner.perform_due()
    age(1_000 * DAY)
    tasks.purge_effects()
    assert Effect.objects.count() == 1
    assert SentTicks().is_needless("weir: purge effects", PURGE_EFFECTS)
    settings.WEIR_EFFECT_RETENTION = DAY.total_seconds()
    assert not SentTicks().is_needless("weir: purge effects", PURGE_EFFECTS)
    tasks.purge_effects()
    assert not Effect.objects.exists()
    queueing.once(BLIND, effect.key, context=effect.context)
    runner.perform_due()
    assert api.refunds()[effect.key] == 2


@pytest.mark.usefixtures("_retained")
@for_each(
    ("word", "act", "on_done", "aged", "left"),
    [
        ("plain", None, "", 2 * DAY, 0),
        ("plain", None, "", DAY / 2, 1),
        ("decline", None, "", 2 * DAY, 0),
        ("cut-done", None, "", 2 * DAY, 1),  # it is unknown
        ("cut-done", Act.GIVE_UP, "", 2 * DAY, 0),
        ("decline", Act.AGAIN, "", 2 * DAY, 1),  # it is pending
        ("plain", None, "elsewhere.refunded", 2 * DAY, 1),  # nobody was told yet
    ],
)
def test_only_what_has_ended_long_ago_for_good_is_deleted(
    api: PaymentApi, *, word: str, act: Act | None, on_done: str, aged: timedelta, left: int
) -> None:
    """With what people said about it."""
    EffectResolution.objects.all().delete()
    Effect.objects.all().delete()
    effect = queue(BLIND, api.port, word, on_done=on_done)
    runner.perform_due()
    if act:
        resolving.resolve(effect.pk, act, "ada", "The customer was called.")
    age(aged)
    assert (purge.purge(), Effect.objects.count()) == (1 - left, left)
    assert EffectResolution.objects.count() == (1 if act and left else 0)


@pytest.mark.usefixtures("_retained")
def test_an_effect_that_is_purged_while_it_is_asked_for_again_is_queued(
    api: PaymentApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after `once` has found that there is one."""
    effect = queue(BLIND, api.port)
    runner.perform_due()
    age(2 * DAY)
    store = queueing.QUEUE

    def store_and_purge(**parameters: object) -> list[queueing.StoredRow]:
        stored = store(**parameters)
        purge.purge()
        return stored

    monkeypatch.setattr(queueing, "QUEUE", store_and_purge)
    again = queueing.once(BLIND, effect.key, context=effect.context)
    assert (again.state, again.pk > effect.pk, Effect.objects.get()) == ("pending", True, again)


def test_old_effects_are_found_by_index() -> None:
    now = database_now()
    of_all = {"kind": BLIND, "state": "done", "done_at": now, "ended_at": now, "context": {"said": "x" * 1_000}}
    Effect.objects.bulk_create([Effect(**of_all, key=str(number)) for number in range(2_000)])
    nodes = plan_of("weir.workers.effects", "purge", {"older_than": 86_400.0, "batch": purge.BATCH})
    assert "weir_effect_ended" in {node.get("Index Name") for node in nodes}
    assert "weir_effects_effect" not in {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
