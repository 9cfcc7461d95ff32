"""Beat asks before it sends a tick: none is sent for nothing, and each at once where there is something to do."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from project.celery import app
from tests.integration.conftest import Eventually
from tests.integration.workers.conftest import QUEUE
from weir.notifications import flush, inbox
from weir.notifications.inbox import writing
from weir.notifications.maintenance import forgetting
from weir.notifications.models import Excess, Notification
from weir.ratelimit.models import Site
from weir.redis_link import calls
from weir.workers import task_names
from weir.workers.beat import rows, work
from weir.workers.beat.scheduler import LeasedScheduler
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.mail.models import Email
from weir.workers.schedule import NEW, ScheduleEntry
from weir.workers.throttled.models import PostponedTask
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import watch

pytestmark = pytest.mark.django_db(transaction=True)

SOON = timedelta(days=1)
ENTRY = ScheduleEntry(name="weir: test", task=task_names.SWEEP, every=timedelta(seconds=1), app="", queue=QUEUE)


@pytest.fixture
def scheduler() -> Iterator[Any]:
    second = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.create(name="test", task=task_names.SWEEP, interval=second, queue=QUEUE)
    made: Any = LeasedScheduler(app=app)
    yield made
    made.close()


def user() -> Any:
    return get_user_model().objects.create(username=uuid4().hex)


def site(**fields: object) -> None:
    Site.objects.create(name="one.example", interval=timedelta(seconds=1), **fields)


def email(**fields: object) -> None:
    Email.objects.create(kind="test", key=uuid4().hex, recipient="a@b.example", context={}, **fields)


def fetch(state: str = "queued", **fields: object) -> None:
    request_fetch("http://one.example/")
    Site.objects.update(has_backlog=False, due_at=None)
    Fetch.objects.update(state=state, **fields)


def notification(**fields: object) -> None:
    Notification.objects.create(user_id=user().pk, kind="test", title="text", **fields)


def marked() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writing, "MOST_MARKED", 0)  # a read mark, whatever there is
        reader = user().pk
        inbox.notify(reader, "test", "text")
        inbox.mark_all_read(reader)


def watched(**fields: object) -> None:
    watch("http://one.example/", every=SOON)
    Watch.objects.update(**fields)


def called_again(at: object) -> None:
    fetch(FetchState.DONE, on_done="shop.done", on_done_called_at=Now(), on_done_again_at=at, **ENDED)


HELD = {"slot_id": 1, "lease_until": Now() + SOON}
ENDED = {"finished_at": Now(), "status_code": 200}
# For each tick: what there is, whether that is something to do, and what there is.
SITUATIONS: list[tuple[str, str, bool, Callable[[], object]]] = [
    (task_names.DISPATCH, "a site without a backlog", False, site),
    (task_names.DISPATCH, "a backlog", True, lambda: site(has_backlog=True)),
    (task_names.DISPATCH, "due", True, lambda: site(due_at=Now())),
    (task_names.DISPATCH, "due later", False, lambda: site(due_at=Now() + SOON)),
    (task_names.SWEEP, "queued", True, fetch),
    (task_names.SWEEP, "reserved", True, lambda: fetch(FetchState.RESERVED, **HELD)),
    (task_names.SWEEP, "running", True, lambda: fetch(FetchState.RUNNING, **HELD)),
    (task_names.SWEEP, "done", False, lambda: fetch(FetchState.DONE, **ENDED)),
    (task_names.SWEEP, "not called", True, lambda: fetch(FetchState.DONE, on_done="shop.done", **ENDED)),
    (
        task_names.SWEEP,
        "called",
        False,
        lambda: fetch(FetchState.DONE, on_done="shop.done", on_done_called_at=Now(), **ENDED),
    ),
    (task_names.SWEEP, "to be called again", True, lambda: called_again(Now())),
    (task_names.SWEEP, "to be called again later", False, lambda: called_again(Now() + SOON)),
    (
        task_names.PUBLISH_POSTPONED,
        "postponed",
        True,
        lambda: PostponedTask.objects.create(site="one.example", task="shop.ask", signature="{}", max_wait=1.0),
    ),
    (task_names.KEEP_WATCH, "due", True, lambda: watch("http://one.example/", every=SOON)),
    (task_names.KEEP_WATCH, "due later", False, lambda: watched(next_at=Now() + SOON)),
    (task_names.KEEP_WATCH, "paused", False, lambda: watched(next_at=None)),
    (task_names.KEEP_WATCH, "ended", True, lambda: fetch(FetchState.DONE, on_done=task_names.KEEP_WATCH, **ENDED)),
    (
        task_names.KEEP_WATCH,
        "judged",
        False,
        lambda: fetch(FetchState.DONE, on_done=task_names.KEEP_WATCH, on_done_called_at=Now(), **ENDED),
    ),
    (task_names.SEND_EMAILS, "due", True, email),
    (task_names.SEND_EMAILS, "due later", False, lambda: email(next_attempt_at=Now() + SOON)),
    (
        task_names.SEND_EMAILS,
        "claimed",
        True,
        lambda: email(state="claimed", claim_token=uuid4(), claimed_until=Now() + SOON, next_attempt_at=Now() + SOON),
    ),
    (
        task_names.SEND_EMAILS,
        "sending",
        True,
        lambda: email(state="sending", claim_token=uuid4(), sending_since=Now(), next_attempt_at=Now() + SOON),
    ),
    (task_names.SEND_EMAILS, "over", True, lambda: email(next_attempt_at=Now() + SOON, expires_at=Now())),
    (task_names.SETTLE_UNREAD, "forgotten", True, lambda: forgetting.forget_user(user().pk)),
    (task_names.SETTLE_UNREAD, "marked", True, marked),
    (task_names.EXPIRE_NOTIFICATIONS, "kept", False, lambda: inbox.notify(user().pk, "test", "text")),
    (task_names.EXPIRE_NOTIFICATIONS, "expires later", False, lambda: notification(expires_at=Now() + SOON)),
    (task_names.EXPIRE_NOTIFICATIONS, "expired", True, lambda: notification(expires_at=Now())),
    (task_names.GATHER_DIGESTS, "due later", False, lambda: notification(digest_due_at=Now() + SOON)),
    (task_names.GATHER_DIGESTS, "due", True, lambda: notification(digest_due_at=Now())),
    (task_names.GATHER_DIGESTS, "read", False, lambda: notification(digest_due_at=Now(), read_at=Now())),
    (task_names.EXPIRE_NOTIFICATIONS, "too many", True, lambda: Excess.objects.create(user_id=user().pk)),
]


def test_what_there_is_to_do() -> None:
    """Each situation by itself; nothing is to be done where there is nothing."""
    wrong = []
    for task_name, name, has_work, make in SITUATIONS:
        question = work._questions[task_name]
        assert not question.has_work(), f"before {name}: {task_name}"
        with transaction.atomic():
            make()
            if question.has_work() is not has_work:
                wrong.append((task_name, name))
            transaction.set_rollback(True)
    assert not wrong


def test_deltas_are_to_be_flushed() -> None:
    question = work._questions[task_names.FLUSH_UNREAD]
    flush.flush_sealed()  # what tests before have left in Redis: sealed, and open
    flush.flush_sealed()
    assert not question.has_work()
    inbox.notify(user().pk, "test", "text")
    assert question.has_work()
    flush.flush_sealed()
    assert not question.has_work()


def test_each_tick_that_comes_often_is_asked_about() -> None:
    """But for those that do something each time: the numbers' slow scan, and the history's minutes."""
    from weir.workers.schedule import SCHEDULE  # noqa: PLC0415

    often = {entry.task for entry in SCHEDULE if entry.every <= timedelta(seconds=15)}
    assert often - set(work._questions) == {task_names.RECONCILE_UNREAD, task_names.ROLL_UP}


def test_a_redis_that_is_away_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush logs it; and beat goes on."""

    def away(*_command: object) -> None:
        raise calls.RedisUnreachable("gone")

    monkeypatch.setattr(calls, "run", away)
    assert work._questions[task_names.FLUSH_UNREAD].has_work()


def test_a_tick_is_sent_when_there_is_something_to_do(
    scheduler: Any, sent: Callable[[], int], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one in any case, for what the beat before did not send; then none for nothing."""
    asked, has_work = [], [False]

    def question() -> bool:
        asked.append(scheduler.tick)
        return has_work[0]

    monkeypatch.setitem(work._questions, task_names.SWEEP, work.Question(has_work=question, sent_every_s=3600.0))
    eventually(lambda: scheduler.tick() >= 0 and sent() == 1, "the first")
    saved = PeriodicTask.objects.values_list("last_run_at", "total_run_count").get()
    eventually(lambda: scheduler.tick() >= 0 and len(asked) == 2, "two questions")
    assert sent() == 1
    assert PeriodicTask.objects.values_list("last_run_at", "total_run_count").get() == saved
    has_work[0] = True
    eventually(lambda: scheduler.tick() >= 0 and sent() == 2, "the second")


def test_a_tick_is_sent_for_nothing_after_a_while(
    scheduler: Any, sent: Callable[[], int], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the question overlooks comes late, and is not lost."""
    monkeypatch.setitem(work._questions, task_names.SWEEP, work.Question(has_work=lambda: False, sent_every_s=1.0))
    eventually(lambda: scheduler.tick() >= 0 and sent() == 2, "another")


def test_a_tick_that_is_new_is_not_sent_for_nothing(
    scheduler: Any, sent: Callable[[], int], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even once: while a version is replaced, a worker of the one before would not know it."""
    answers = [False, False, True]
    question = work.Question(has_work=lambda: answers.pop(0) if answers else False, sent_every_s=math.inf)
    monkeypatch.setitem(work._questions, task_names.SWEEP, question)
    eventually(lambda: scheduler.tick() >= 0 and len(answers) == 1, "two questions")
    assert sent() == 0
    eventually(lambda: scheduler.tick() >= 0 and sent() == 1, "the first")


def test_the_tick_of_a_new_entry_is_sent_by_beats_that_know_it_alone(
    scheduler: Any, sent: Callable[[], int], eventually: Eventually
) -> None:
    """For the beat of another version its row is disabled; when it is new no longer, its row is like any other."""
    rows.synchronise([replace(ENTRY, is_new=True)])
    row = PeriodicTask.objects.get(name=ENTRY.name)
    assert (row.enabled, row.description) == (False, NEW)
    PeriodicTask.objects.filter(name="test").delete()
    eventually(lambda: scheduler.tick() >= 0 and sent() >= 1, "the tick")
    assert not PeriodicTask.objects.get(name=ENTRY.name).enabled
    rows.synchronise([ENTRY])
    row.refresh_from_db()
    assert (row.enabled, row.description) == (True, "")


def test_who_takes_the_lease_sends_all_once(scheduler: Any, sent: Callable[[], int], eventually: Eventually) -> None:
    """Another beat had it: what that has not sent is not known here."""
    eventually(lambda: scheduler.tick() >= 0 and sent() == 1, "the first")
    scheduler._give_up()
    eventually(lambda: scheduler.tick() >= 0 and sent() == 2, "the second")


def test_a_question_that_cannot_be_asked_stops_no_other_tick(
    scheduler: Any, sent: Callable[[], int], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a table is missing, as before `migrate`, or a right: each tick is sent, and the lease is kept."""

    def question() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM no_such_table")
        return False

    monkeypatch.setitem(work._questions, task_names.SWEEP, work.Question(has_work=question, sent_every_s=3600.0))
    eventually(lambda: scheduler.tick() >= 0 and sent() == 1, "the first")
    monkeypatch.setattr(scheduler, "_lose", pytest.fail)
    eventually(lambda: scheduler.tick() >= 0 and sent() == 3, "two more")


def test_a_tick_that_cannot_be_asked_about_is_due_still(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL does not answer: beat leaves its lease, and sends the tick when it has one again."""

    def away() -> bool:
        raise OperationalError("the connection is lost")

    monkeypatch.setitem(work._questions, task_names.SWEEP, work.Question(has_work=away, sent_every_s=3600.0))
    scheduler.tick()
    entry = scheduler.schedule["test"]
    scheduler._sent_ticks.note("test")
    scheduler.reserve(entry)
    assert entry.model.last_run_at > entry.last_run_at
    with pytest.raises(OperationalError):
        scheduler.apply_entry(entry)
    assert entry.model.last_run_at == entry.last_run_at
