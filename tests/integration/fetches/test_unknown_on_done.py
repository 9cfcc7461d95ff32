"""A call of `on_done` whose task a worker does not know: the fetch keeps it, and it is made again."""

from collections.abc import Callable  # noqa: TC003  a variable's type
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import shared_task
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from project.celery import app
from tests.integration.conftest import Message, database_now
from tests.integration.plans import explain
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.on_done import calls, unknown
from weir.workers.fetches.reports.why import why
from weir.workers.fetches.retrying import retry_failed
from weir.workers.on_done.unknown import AGAIN_AFTER, CALLED_AGAIN
from weir.workers.recovery.signals import postgresql_clock_stepped

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

TASK = "shop.tasks.unknown"  # no test has it registered, unlike others that its process ran
HOUR = timedelta(hours=1)


@shared_task(name="shop.tasks.known")
def arrived(_fetch: int) -> None:
    """Stand for a task of an app."""


class Consumer:
    """What Celery's consumer does with unknown tasks, and a timer that is wound by hand."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.later: list[Callable[[], None]] = []
        self.timer = SimpleNamespace(call_after=lambda _s, do, arguments: self.later.append(lambda: do(*arguments)))
        unknown.keep_calls(self)

    def on_unknown_task(self, _body: object, _message: Any, _error: Exception) -> None:
        self.did.append(Fetch.objects.filter(on_done_again_at__isnull=False).count())

    def gets(self, headers: dict[str, Any] | None) -> "Consumer":
        """Let it get a message with these headers."""
        self.on_unknown_task(None, SimpleNamespace(headers=headers), KeyError())
        return self


def ended(on_done: str = TASK) -> Fetch:
    """Create a fetch that ended a while ago, and that called its task."""
    fetch = request_fetch("not a URL", on_done=on_done)
    Fetch.objects.filter(pk=fetch.pk).update(finished_at=database_now() - HOUR)
    return Fetch.objects.get(pk=fetch.pk)


def called(fetch: Fetch) -> dict[str, Any]:
    """Return the headers of the message that calls its task."""
    return {"task": fetch.on_done, "id": "some", unknown.HEADER: fetch.pk}


def due(*fetches: Fetch) -> None:
    """Make their kept calls due."""
    Fetch.objects.filter(pk__in=[fetch.pk for fetch in fetches]).update(on_done_again_at=database_now())


def test_the_call_names_the_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a header, by which a worker that does not know the task finds the row."""
    sent: list[Any] = []
    monkeypatch.setattr(app, "send_task", lambda *_arguments, **options: sent.append(options["headers"]))
    assert sent == [{unknown.HEADER: ended().pk}]


def test_a_worker_keeps_the_call_before_it_rejects_the_message() -> None:
    """If it is killed in between, the broker has the message still: once more is not too often."""
    fetch = ended()
    consumer = Consumer().gets(called(fetch))
    assert consumer.did == [1]
    again_at = Fetch.objects.get().on_done_again_at
    assert again_at
    assert timedelta(0) < again_at - database_now() <= AGAIN_AFTER


def test_fetches_why_names_the_task_and_when_it_is_called_again() -> None:
    fetch = ended()
    Consumer().gets(called(fetch))
    _, kept = why(fetch.pk).blockers
    assert (kept.kind, TASK in kept.text, kept.remedy) == ("on_done", True, CALLED_AGAIN)
    assert kept.until == Fetch.objects.get().on_done_again_at


def test_a_message_that_calls_no_task_of_on_done_is_celerys_affair() -> None:
    """Nor does a message stay that names what no fetch can have: PostgreSQL would refuse it again and again."""
    fetch = ended()
    consumer = Consumer()
    strange: list[dict[str, Any] | None] = [None, {}, {"task": TASK}, called(fetch) | {"task": "shop.tasks.other"}]
    strange += [called(fetch) | {"task": task} for task in ("a\0b", "\ud800", None, [TASK])]
    strange += [called(fetch) | {unknown.HEADER: number} for number in ("x", 2**80, -1, True)]
    for headers in strange:
        consumer.gets(headers)
    assert consumer.did == [0] * len(strange)
    assert consumer.later == []


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "shop.tasks.x\n"])
def test_a_name_that_no_task_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="without control characters"):
        request_fetches(["https://a.example/"], on_done=name)


def test_while_postgresql_is_away_the_worker_keeps_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """And tries again: Celery has not rejected it."""
    fetch = ended()
    consumer = Consumer()
    with monkeypatch.context() as away:
        rows = SimpleNamespace(filter=lambda **_chosen: (_ for _ in ()).throw(OperationalError("away")))
        away.setattr(unknown, "Fetch", SimpleNamespace(objects=rows))
        consumer.gets(called(fetch))
        assert consumer.did == []
        [again] = consumer.later
    again()
    assert consumer.did == [1]


def test_a_kept_call_is_made_again_in_its_time(messages: list[Message]) -> None:
    """Not before; and then once, until a worker says again that it does not know the task."""
    fetch = ended()
    Consumer().gets(called(fetch))
    messages.clear()
    sweep()
    assert messages == []
    due(fetch)
    sweep()
    sweep()
    assert messages == [(TASK, (fetch.pk,))]
    fetch.refresh_from_db()
    assert (fetch.on_done_again_at, fetch.on_done_called_at is not None) == (None, True)


def test_a_worker_that_is_quicker_than_the_record_of_the_call_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it does not know the task before the sender has recorded that the broker took the message."""
    fetch = ended()
    due(fetch)

    def send_task(*_arguments: object, **options: Any) -> None:
        Consumer().gets({"task": TASK, **options["headers"]})

    monkeypatch.setattr(app, "send_task", send_task)
    sweep()
    assert Fetch.objects.get().on_done_again_at is not None


def test_a_broker_that_is_away_when_the_call_is_made_again_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, messages: list[Message]
) -> None:
    fetch = ended()
    due(fetch)
    with monkeypatch.context() as away:
        away.setattr("weir.workers.fetches.on_done.calls.call", lambda *_arguments, **_headers: False)
        sweep()
    messages.clear()
    sweep()
    assert messages == [(TASK, (fetch.pk,))]


def test_of_tasks_that_nobody_knows_few_are_called_at_once(
    monkeypatch: pytest.MonkeyPatch, messages: list[Message]
) -> None:
    """Each makes a worker log an error. Those of a task that sweep's own process knows all go."""
    monkeypatch.setattr(calls, "MOST_UNKNOWN", 2)
    many = [ended() for _ in range(5)]
    known = [ended(arrived.name) for _ in range(3)]
    due(*many, *known)
    messages.clear()

    def calls_of_sweep() -> list[Message]:
        sweep()
        return sorted(message for message in messages if message[0] in (TASK, arrived.name))

    expected = [*((TASK, (fetch.pk,)) for fetch in many[:2]), *((arrived.name, (fetch.pk,)) for fetch in known)]
    assert calls_of_sweep() == sorted(expected)
    assert len(calls_of_sweep()) == 7


def test_a_task_that_is_known_waits_for_no_others(messages: list[Message]) -> None:
    """However many calls of tasks that nobody knows are due before it."""
    many = [ended() for _ in range(calls.MOST_UNKNOWN + 1)]
    known = ended(arrived.name)
    due(*many)
    due(known)
    messages.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "BATCH", 5)
        calls.renew()
    assert set(Fetch.objects.filter(on_done_again_at=None)) == {*many[: calls.MOST_UNKNOWN], known}


def test_a_retried_fetch_calls_its_task_at_its_next_end_alone() -> None:
    """What was kept of its first end is forgotten, and what a worker says of it later is not heard."""
    fetch = request_fetch("http://a.example/", on_done=TASK, max_attempts=1)
    Fetch.objects.update(state=FetchState.FAILED, error="refused", finished_at=Now(), on_done_called_at=Now())
    Consumer().gets(called(fetch))
    assert Fetch.objects.get().on_done_again_at is not None
    assert retry_failed(Fetch.objects.all()).queued == 1
    Consumer().gets(called(fetch))
    assert Fetch.objects.get().on_done_again_at is None


def test_a_clock_that_is_set_back_does_not_put_it_off() -> None:
    fetch = request_fetch("http://a.example/", on_done=TASK)
    cancel(fetch.pk)
    Fetch.objects.update(on_done_again_at=database_now() + HOUR)
    postgresql_clock_stepped.send(sender=None, step=-HOUR)
    again_at = Fetch.objects.get().on_done_again_at
    assert again_at
    assert again_at <= database_now()


def test_what_is_due_is_found_by_index() -> None:
    """Among many fetches that have ended, without statistics; the others as well as those of tasks that are known."""
    request_fetches(["no URL"] * 2_000, on_done=TASK)
    with CaptureQueriesContext(connection) as ran:
        calls.renew()
    of_known, of_others = [query["sql"] for query in ran if query["sql"].startswith("SELECT")]
    assert {node.get("Index Name") for node in explain(of_known)} == {None, "weir_fetch_task_called_again"}
    assert {node.get("Index Name") for node in explain(of_others)} == {None, "weir_fetch_called_again"}
