"""A watch: one row for each key, whose page is asked for when it is due, and which calls for what has changed."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from celery import shared_task
from django.db import OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.testing import captured_fetches
from weir.testing.answers import end
from weir.workers.fetches.enqueue import request_fetch, watched
from weir.workers.fetches.jobs import Answer, Failure, Job
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.fetches.on_done.calls import call_overdue
from weir.workers.fetches.reports.fetch_way import fetch_way
from weir.workers.fetches.retrying import retry_failed
from weir.workers.watches import asking, judging, stepping
from weir.workers.watches.models import Watch
from weir.workers.watches.tasks import keep_watch
from weir.workers.watches.watching import unwatch, watch, watch_many

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("fetches")]

URL = "https://a.example/prices"
HOUR = timedelta(hours=1)
told: list[int] = []


@shared_task(name="tests.page_changed")
def page_changed(fetch_id: int) -> None:
    """Note the call."""
    told.append(fetch_id)


@pytest.fixture
def fetches() -> Iterator[None]:
    """Keep fetches from being sent; tasks are run immediately."""
    told.clear()
    with captured_fetches():
        yield


def ask() -> Fetch:
    """Make all watches due, and ask; returns the newest fetch."""
    Watch.objects.update(next_at=Now())
    asking.ask_due()
    return Fetch.objects.latest("pk")


def times(host: str = "a.example") -> list[datetime]:
    """Return when the watches of a host are due, in order."""
    found = Watch.objects.filter(host=host, next_at__isnull=False).order_by("next_at")
    return [row.next_at for row in found if row.next_at]


def answer(fetch: Fetch, status: int, body: str, headers: Mapping[str, str] | None = None) -> Fetch:
    """Answer the fetch, and leave it to be judged."""
    pairs = tuple((name.encode(), value.encode()) for name, value in (headers or {}).items())
    return end(
        fetch,
        lambda job: Answer(
            job=job, status_code=status, headers=pairs, body=body.encode(), lateness_ms=0.0, elapsed_ms=0.0
        ),
    )


def came(body: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Fetch:
    """Ask, answer, and judge the answer; returns the fetch."""
    fetch = answer(ask(), status, body, headers)
    assert judging.judge_ended() == 1
    return fetch


def test_a_change_is_told_and_nothing_else() -> None:
    """Neither the first body, nor the same one again, nor a 404, nor the old body after it."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("1")
    came("1")
    came("gone", 404)
    failing = Watch.objects.get()
    assert (failing.error, failing.failing_since is None) == ("the site answered 404", False)
    came("1")
    assert told == []
    changed = came("2")
    assert told == [changed.pk]
    row = Watch.objects.of_fetch(changed.pk).get()
    assert (row.changes, row.error, row.failing_since, row.changed_at) == (1, "", None, changed.finished_at)
    assert Fetch.objects.get(pk=changed.pk).on_done == page_changed.name
    came("1")
    assert len(told) == 2


def test_the_first_body_is_told_if_that_is_asked_for() -> None:
    watch(URL, every=HOUR, on_change=page_changed, tell_first=True)
    first = came("1")
    came("1")
    assert (told, Watch.objects.get().changes) == ([first.pk], 0)


def test_not_modified_is_no_change() -> None:
    """A redirect is followed on the way; a 304 keeps the body that it refers to."""
    watch(URL, every=HOUR, on_change=page_changed)
    first = came("1", headers={"ETag": '"1"'})
    again = came("", 304)
    assert (again.unchanged_from_id, again.content, told) == (first.pk, b"1", [])


def test_an_etag_hides_no_change() -> None:
    """A 200 says that the body may be another one, whatever its ETag is; the last ETag is sent."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("1", headers={"ETag": '"1"'})
    changed = came("2", headers={"ETag": '"1"'})
    assert told == [changed.pk]
    came("2", headers={"ETag": '"2"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})
    sent: list[Any] = []

    def failed(job: Job) -> Failure:
        sent.append(job.validators)
        return Failure(job=job, error="no answer", permanent=True)

    end(ask(), failed)
    assert [validators.etag for validators in sent] == ['"2"']


def test_a_body_that_another_fetch_brought_is_told() -> None:
    """The site says 304 about a body that this watch has not seen."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("1", headers={"ETag": '"1"'})
    answer(request_fetch(URL, revalidate=True), 200, "2", headers={"ETag": '"2"'})
    changed = came("", 304)
    assert (told, changed.content) == ([changed.pk], b"2")


def test_at_most_one_fetch_of_a_watch_is_unfinished() -> None:
    """However often it is due; once the fetch ends, it is asked for once, not for each period that was missed."""
    watch(URL, every=HOUR)
    for _ in range(3):
        first = ask()
    assert Fetch.objects.count() == 1
    assert times()[0] > first.created_at
    answer(first, 200, "1")
    judging.judge_ended()
    Watch.objects.update(next_at=Now() - 100 * HOUR)
    asking.ask_due()
    assert (Fetch.objects.count(), Watch.objects.due().count()) == (2, 0)


def test_a_failed_fetch_that_is_retried_stays_the_only_one() -> None:
    """It is judged again at its new end."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("1")
    failed = end(ask(), lambda job: Failure(job=job, error="no answer in time", permanent=True))
    assert judging.judge_ended() == 1
    assert Watch.objects.get().error == "no answer in time"
    retry_failed(Fetch.objects.filter(pk=failed.pk))
    ask()
    assert Fetch.objects.unfinished().count() == 1
    answer(Fetch.objects.unfinished().get(), 200, "2")
    judging.judge_ended()
    assert (told, Watch.objects.get().error) == ([failed.pk], "")


def test_a_second_call_changes_the_watch() -> None:
    """A call that says the same writes nothing. Another page's body is the first one of the watch."""
    first = watch(URL, every=HOUR, key="prices")
    assert watch_many({"prices": URL}, every=HOUR) == 0
    came("1")
    second = watch("https://b.example/", every=2 * HOUR, key="prices", on_change=page_changed)
    assert (second.pk, second.url, second.period) == (first.pk, "https://b.example/", 2 * HOUR)
    assert (second.body_hash, second.body_id) == (None, None)
    came("2")
    assert told == []


def test_what_a_fetch_brought_from_before_the_change_is_not_compared() -> None:
    watch(URL, every=HOUR, key="prices", on_change=page_changed)
    old = ask()
    watch("https://b.example/", every=HOUR, key="prices", on_change=page_changed)
    answer(old, 200, "of the old page")
    assert judging.judge_ended() == 1
    assert Watch.objects.get().body_hash is None


def test_a_watch_that_is_removed_calls_nothing() -> None:
    watch(URL, every=HOUR, on_change=page_changed)
    came("1")
    last = ask()
    assert (unwatch("HTTPS://A.example/prices"), unwatch(URL)) == (1, 0)
    answer(last, 200, "2")
    assert (judging.judge_ended(), judging.judge_ended(), told) == (1, 0, [])


def test_a_period_adapts_within_its_bounds() -> None:
    """Half as long after a change, 1.5 times as long without one."""
    watch(URL, every=HOUR, jitter=0, adapt=(HOUR / 3, 2 * HOUR))
    periods = []
    for body in ("first", "first", "first", "a", "b", "c", "d", "d"):
        came(body)
        row = Watch.objects.get()
        periods.append(row.period / HOUR)
        assert row.next_at is not None
    assert periods == pytest.approx([1, 1.5, 2, 1, 0.5, 1 / 3, 1 / 3, 0.5])


def test_new_watches_are_spread() -> None:
    """One alone is due at once; those of one call are spread over the period; jitter keeps them apart."""
    watch("https://b.example/", every=HOUR)
    assert Watch.objects.due().count() == 1
    watch_many([f"https://a.example/{number}" for number in range(100)], every=HOUR)
    assert timedelta(minutes=59) < times()[-1] - times()[0] < HOUR
    ask()
    assert len(set(times())) > 90
    assert timedelta(minutes=3) < times()[-1] - times()[0] < timedelta(minutes=13)


def test_the_way_of_a_fetch_says_that_its_watch_judges_it() -> None:
    """Nothing is called with it, unless its page has changed."""
    watch(URL, every=HOUR, on_change=page_changed)
    said = [last_step(fetch := ask())]
    answer(fetch, 200, "1")
    said.append(last_step(fetch))
    judging.judge_ended()
    said.append(last_step(fetch))
    assert said == [
        "its watch judges it at the end",
        "its watch judges it within seconds",
        "its watch has judged it",
    ]
    assert last_step(came("2")) == "tests.page_changed is called"


def last_step(fetch: Fetch) -> str:
    """Return what `fetches show` says last."""
    return fetch_way(fetch.pk).steps[-1].text


def test_it_is_part_of_the_callers_transaction() -> None:
    with transaction.atomic():
        watch(URL, every=HOUR)
        transaction.set_rollback(True)
    assert Watch.objects.count() == 0


def test_an_address_that_is_forbidden_later_shows_as_failing() -> None:
    """The watch stays, and says why."""
    watch("https://a.example:81/", every=HOUR)
    assert ask().state == FetchState.FAILED
    judging.judge_ended()
    assert "81" in Watch.objects.get().error


def test_ends_of_one_watch_are_judged_in_their_order() -> None:
    """Even if several wait: each differs from the one before, so each is told."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("1")
    ids = [answer(ask(), 200, body).pk for body in ("2", "2", "3")]
    with transaction.atomic():
        assert watched.take_ended(10) == (ids[:1], 3)
    assert judging.judge_ended() == 3
    assert told == [ids[0], ids[2]]


def test_a_call_that_was_lost_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process died right after the commit: sweep finds the call as that of any fetch."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("1")
    monkeypatch.setattr(judging, "call_on_done", lambda _calls: None)
    changed = came("2")
    assert told == []
    Fetch.objects.update(finished_at=F("finished_at") - HOUR)
    assert call_overdue() == 1
    assert told == [changed.pk]


def test_sweep_leaves_ends_that_wait_to_be_judged() -> None:
    watch(URL, every=HOUR)
    answer(ask(), 200, "1")
    Fetch.objects.update(finished_at=F("finished_at") - HOUR)
    assert call_overdue() == 0
    assert judging.judge_ended() == 1


def test_a_watch_that_another_transaction_has_locked_waits_for_no_one(
    other_connection: psycopg.Connection[Any],
) -> None:
    """Neither to be asked for nor to be judged; both happen later."""
    watch_many([URL, "https://b.example/"], every=HOUR)
    answer(ask(), 200, "1")
    for fetch in Fetch.objects.unfinished():
        answer(fetch, 200, "1")
    Watch.objects.update(next_at=Now())
    with other_connection.transaction():
        other_connection.execute("SELECT FROM weir_watches_watch WHERE host = 'a.example' FOR UPDATE")
        assert (asking.ask_due(), judging.judge_ended()) == (1, 1)
    assert (asking.ask_due(), judging.judge_ended()) == (1, 1)


def test_many_locked_watches_hold_up_no_other_one(
    other_connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their ends are passed over, however many come first. Watches that a call does not change are not locked."""
    monkeypatch.setattr(judging, "BATCH", 2)
    urls = [f"https://a.example/{number}" for number in range(30)]
    watch_many(urls, every=HOUR)
    ask()
    for fetch in Fetch.objects.unfinished():
        answer(fetch, 200, "1")
    watch("https://b.example/", every=HOUR)
    answer(ask(), 200, "1")
    with transaction.atomic():
        assert watch_many(urls, every=HOUR) == 0
        every = "SELECT FROM weir_watches_watch WHERE host = 'a.example' FOR NO KEY UPDATE SKIP LOCKED"
        assert len(other_connection.execute(every).fetchall()) == len(urls)
    other_connection.rollback()
    with other_connection.transaction():
        other_connection.execute("SELECT FROM weir_watches_watch WHERE host = 'a.example' FOR NO KEY UPDATE")
        assert judging.judge_ended() == 1
    with transaction.atomic():  # many are looked at, and a batch is judged
        assert len(judging.JUDGE(fetches=watched.take_ended(100).fetch_ids, most=judging.BATCH)) == judging.BATCH
        transaction.set_rollback(True)
    assert judging.judge_ended() == len(urls)


def test_two_ticks_judge_no_fetch_twice(other_connection: psycopg.Connection[Any]) -> None:
    """What one has taken, the other passes over."""
    watch(URL, every=HOUR)
    fetch = answer(ask(), 200, "1")
    with other_connection.transaction():
        other_connection.execute("SELECT FROM weir_fetches_fetch WHERE id = %s FOR NO KEY UPDATE", [fetch.pk])
        assert judging.judge_ended() == 0
    assert judging.judge_ended() == 1


@pytest.mark.usefixtures("known_again")
def test_nothing_is_asked_for_by_a_clock_that_is_not_the_expected_one() -> None:
    """After a step of PostgreSQL's clock; times are corrected if it was set back."""
    watch(URL, every=HOUR)
    gate.remember(KnownTimeline.objects.get().generation + 1)
    with pytest.raises(OperationalError, match="PostgreSQL may have forgotten"):
        asking.ask_due()
    gate.forget()
    before = times()[0]
    stepping.put_right(step=10 * HOUR)
    assert times()[0] == before
    stepping.put_right(step=-10 * HOUR)
    assert times()[0] == before - 10 * HOUR


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"urls": [URL, "ftp://a.example/"]}, ValueError, "Item 1 cannot be watched: "),
        ({"urls": URL}, TypeError, "use watch for one URL"),
        ({"urls": [7]}, TypeError, "must be a str"),
        ({"urls": {"": URL}}, ValueError, "Each key must have"),
        ({"every": timedelta(0)}, ValueError, "between a second and 366 days"),
        ({"every": 3600}, TypeError, "must be a timedelta"),
        ({"jitter": 0.6}, ValueError, "jitter must be between 0 and 0.5"),
        ({"jitter": "1"}, TypeError, "jitter must be a number"),
        ({"adapt": (2 * HOUR, 3 * HOUR)}, ValueError, "adapt must enclose every"),
        ({"adapt": HOUR}, TypeError, "a shortest and a longest period"),
        ({"priority": 99_999}, ValueError, "priority must be between"),
        ({"headers": {"Host": "b.example"}}, ValueError, "must not have Host"),
        ({"on_change": 7}, TypeError, "on_change must be a Celery task"),
    ],
)
def test_what_is_refused(options: dict[str, object], error: type[Exception], said: str) -> None:
    """In a sentence, and nothing is stored."""
    with pytest.raises(error, match=said):
        watch_many(**{"urls": [URL], "every": HOUR, **options})  # type: ignore[arg-type]
    assert Watch.objects.count() == 0


def test_an_end_that_a_version_without_watches_has_called_is_judged_once() -> None:
    """Its fetchers call the tick with the fetch, as any other `on_done`, and record the call."""
    watch(URL, every=HOUR, on_change=page_changed)
    came("one")
    changed = answer(ask(), 200, "two")
    for _ in range(2):
        Fetch.objects.filter(pk=changed.pk).update(on_done_called_at=Now())
        keep_watch(changed.pk)
    assert told == [changed.pk]


def test_an_end_that_was_judged_is_not_judged_again() -> None:
    """However often the tick is called with its fetch: a period that adapts would grow each time."""
    watch(URL, every=HOUR, jitter=0, adapt=(HOUR / 3, 10 * HOUR))
    came("1")
    same = came("1")
    before = Watch.objects.get()
    keep_watch(same.pk)
    assert judging.judge_ended() == 0
    assert Watch.objects.get().period == before.period


def test_a_body_that_its_headers_deny_is_compared_all_the_same() -> None:
    watch(URL, every=HOUR, on_change=page_changed)
    came("one", headers={"Content-Encoding": "UTF-8"})
    changed = came("two", headers={"Content-Encoding": "UTF-8"})
    assert told == [changed.pk]
    assert Watch.objects.get().error == ""
