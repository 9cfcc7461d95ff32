"""The task of a batch is called each time that nothing of it is left, and not before its caller has asked for all."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import shared_task
from django.db import transaction
from django.db.models.functions import Now

from project.celery import app
from tests.integration.conftest import Message, database_now
from weir.testing import captured_fetches
from weir.workers.broker_link import BrokerUnreachable
from weir.workers.fetches.apps import SWEEP_HAS_WORK
from weir.workers.fetches.batches import counting
from weir.workers.fetches.batches.counts import UnknownBatch, batch_counts
from weir.workers.fetches.cancelling import cancel, cancel_batch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Batch, Fetch
from weir.workers.fetches.on_done import unknown
from weir.workers.fetches.retrying import retry_batch
from weir.workers.recovery.signals import postgresql_clock_stepped

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "import-7"
TASK = "elsewhere.imported"
URL = "https://site.example/page"


@pytest.fixture
def called(messages: list[Message]) -> Callable[[], list[Any]]:
    """Return a function that lets sweep work, and returns the arguments of the calls of TASK that this makes."""

    def look() -> list[Any]:
        messages.clear()
        sweep()
        return [arguments for task, arguments in messages if task == TASK]

    return look


def ask(*urls: str, **options: Any) -> list[Fetch]:
    return list(request_fetches(urls, batch=NAME, **{"on_batch_done": TASK, **options}))


def test_it_is_called_each_time_that_nothing_is_left(called: Callable[[], list[Any]]) -> None:
    """With the name; once for each end, also if the URL was refused, if all are cancelled, or none was asked for."""
    [queued, _] = ask(URL, "nonsense")
    assert called() == []
    cancel(queued.pk)
    assert [SWEEP_HAS_WORK(), called(), called(), SWEEP_HAS_WORK()] == [[True], [(NAME,)], [], [False]]
    assert batch_counts(NAME).state == "ended"
    [again] = ask(URL, on_batch_done=None)  # the task stays
    assert [batch_counts(NAME).state, called()] == ["running", []]
    cancel(again.pk)
    assert called() == [(NAME,)]
    Fetch.objects.filter(pk=again.pk).update(state="failed", error="no")
    assert called() == [(NAME,)]
    assert retry_batch(NAME).queued == 1
    assert called() == []
    assert cancel_batch(NAME, limit=0) == (0, 1)
    assert cancel_batch(NAME) == (1, 0)
    assert called() == [(NAME,)]
    ask(on_batch_done=None)
    assert called() == [(NAME,)]
    request_fetches([], batch="empty", on_batch_done=TASK)
    assert called() == [("empty",)]
    with transaction.atomic():
        ask(URL)
        transaction.set_rollback(True)
    assert called() == []


def test_it_is_not_called_while_a_change_is_not_folded(
    called: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes that were folded first may come to nothing left."""
    monkeypatch.setattr(counting, "CHANGES", 1)
    [first] = ask(URL)
    cancel(first.pk)
    [last] = ask(URL)
    assert [called() for _ in range(3)] == [[], [], []]
    cancel(last.pk)
    assert called() == [(NAME,)]


def test_it_is_not_called_while_more_is_to_come(called: Callable[[], list[Any]]) -> None:
    [first] = ask(URL, more_to_come=True)
    cancel(first.pk)
    assert [called(), batch_counts(NAME).state] == [[], "open"]
    request_fetches([], batch=NAME)
    assert called() == [(NAME,)]
    [later] = ask(URL, more_to_come=True)
    cancel(later.pk)
    assert called() == []
    [last] = ask(URL)
    assert called() == []
    cancel(last.pk)
    assert called() == [(NAME,)]


def test_a_fetch_is_shared_within_its_batch_only(called: Callable[[], list[Any]]) -> None:
    """So nothing of a batch is left when it ends: with `dedupe`, another batch gets a fetch of its own."""
    first, twice = (ask(URL, dedupe=True)[0] for _ in range(2))
    other = request_fetch(URL, batch="other", dedupe=True, on_batch_done=TASK)
    alone = request_fetch(URL, dedupe=True)
    assert first.pk == twice.pk
    assert len({first.pk, other.pk, alone.pk}) == 3
    cancel(first.pk)
    assert called() == [(NAME,)]


def test_a_call_that_is_lost_is_made_again(
    called: Callable[[], list[Any]], messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the process is killed after it; but not once the batch was opened again."""

    def away(*_arguments: object, **_options: object) -> None:
        raise BrokerUnreachable("away")

    ask("nonsense")
    with monkeypatch.context() as patch:
        patch.setattr(app, "send_task", away)
        counting.settle()
    assert called() == []  # it may still be on its way
    Batch.objects.update(ended_at=Now() - timedelta(minutes=1))
    assert [SWEEP_HAS_WORK(), called(), called()] == [[True], [(NAME,)], []]
    Batch.objects.update(ended_at=None)
    [ended] = counting.END_BATCHES(most=10)
    ask("nonsense too")
    messages.clear()
    counting.call_on_batch_done([ended])  # late, by a process that was frozen
    assert (TASK, (NAME,)) in messages
    assert Batch.objects.get().on_done_called_at is None
    assert called() == [(NAME,)]


def test_a_call_whose_task_a_worker_does_not_know_is_kept(called: Callable[[], list[Any]]) -> None:
    ask("nonsense")
    assert called() == [(NAME,)]
    rejected: list[object] = []
    consumer = SimpleNamespace(on_unknown_task=lambda *_arguments: rejected.append(1))
    unknown.keep_calls(consumer)
    headers = {unknown.BATCH_HEADER: Batch.objects.get().pk, "task": TASK}
    consumer.on_unknown_task(None, SimpleNamespace(headers=headers), KeyError())
    assert rejected == [1]
    due = Batch.objects.get().on_done_again_at
    assert due is not None
    assert due > database_now() + timedelta(minutes=4)
    assert called() == []
    postgresql_clock_stepped.send(None, step=-timedelta(hours=1))
    Batch.objects.update(ended_at=Now() - timedelta(minutes=1))
    assert called() == [(NAME,)]


@shared_task(name="shop.tasks.imported")
def imported(name: str) -> None:
    """Stand for a task of an app."""
    Batch.objects.filter(name=name).update(done=100)


def test_the_tests_of_a_project_see_the_call() -> None:
    with captured_fetches() as fetches:
        request_fetches([f"{URL}/1", f"{URL}/2"], batch=NAME, on_batch_done=imported)
        fetches.answer(f"{URL}/1")
        assert batch_counts(NAME).done == 1
        fetches.fail(f"{URL}/2")
    assert batch_counts(NAME).done == 100


def test_what_is_no_batch_is_refused() -> None:
    """Each with one sentence, and nothing is stored."""
    for options, says in (
        ({"batch": ""}, "batch must be a name of 1 to 200 printable characters"),
        ({"batch": "a" * 201}, "batch must be a name of 1 to 200 printable characters"),
        ({"batch": "a\nb"}, "batch must be a name of 1 to 200 printable characters"),
        ({"batch": 7}, "batch must be the name of a batch, not 7"),
        ({"on_batch_done": TASK}, "on_batch_done and more_to_come are about a batch: name it"),
        ({"more_to_come": True}, "on_batch_done and more_to_come are about a batch: name it"),
        ({"batch": NAME, "on_batch_done": "a" * 201}, "on_batch_done must be of at most 200 characters"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            request_fetches([URL], **options)
    assert not Batch.objects.exists()
    assert not Fetch.objects.exists()
    for function in (batch_counts, cancel_batch, retry_batch):
        with pytest.raises(UnknownBatch, match="There is no batch 'gone'"):
            function("gone")
