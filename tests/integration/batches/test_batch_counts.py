"""The numbers of a batch equal a recount of its fetches after each move, whoever makes it, and at any moment."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from tests.integration.conftest import InThreads, claim
from tests.integration.plans import plan_of, rows_read, scanned
from tests.waiting import in_time
from weir.ratelimit import site_settings
from weir.workers.fetches.batches import counting
from weir.workers.fetches.batches.counts import batch_counts, id_of
from weir.workers.fetches.cancelling import cancel, cancel_batch
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.maintenance.purge import PURGE_BATCHES, purge
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import ACTIVE, Batch, BatchChange, Fetch
from weir.workers.fetches.retrying import retry_batch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

SITE = "site.example"
NAME = "import-7"


def recount(name: str = NAME) -> dict[str, int]:
    """Return how many fetches of the batch there are, as a COUNT finds them."""
    found: Counter[str] = Counter({"unfinished": 0, "done": 0, "failed": 0, "cancelled": 0})
    for state in Fetch.objects.filter(batch__name=name).values_list("state", flat=True):
        found["unfinished" if state in ACTIVE else state] += 1
    return dict(found)


def numbers(name: str = NAME) -> dict[str, int]:
    """Return the numbers that are shown."""
    counts = batch_counts(name)
    return {each: getattr(counts, each) for each in ("unfinished", "done", "failed", "cancelled")}


def ask(count: int, **options: Any) -> list[int]:
    options = {"batch": NAME, **options}
    return list(request_fetches([f"https://{SITE}/{number}" for number in range(count)], **options).ids)


def end(states: dict[str, int]) -> None:
    """Dispatch and claim what is queued, and store so many outcomes with these states."""
    wanted = [state for state, number in states.items() for _ in range(number)]
    jobs = claim(list(Fetch.objects.filter(state="reserved").values_list("pk", flat=True)))
    in_time(len(jobs) >= len(wanted), "a slot has passed")
    of_state: dict[str, dict[str, Any]] = {"done": {"status_code": 200}, "failed": {"error": "no"}, "queued": {}}
    store(
        [
            FetchOutcome(fetch_id=job.fetch_id, slot_id=job.slot_id, state=state, **of_state[state])  # type: ignore[arg-type]  # the fields are of many types
            for job, state in zip(jobs, wanted, strict=False)
        ]
    )


def lose_all() -> None:
    Fetch.objects.filter(state="running").update(lease_until=Now() - timedelta(hours=1))
    sweep()


def by_orm() -> None:
    """Make moves that no code of Weir's makes: to another batch, out of one, into one, and to other states."""
    first, second, third, fourth, fifth = Fetch.objects.filter(batch__name=NAME).order_by("pk")[:5]
    ask(1, batch="other")
    Fetch.objects.filter(pk=first.pk).update(batch=id_of("other"))
    Fetch.objects.filter(pk=second.pk).update(batch=None)
    Fetch.objects.filter(pk=third.pk).update(state="failed", error="by hand", finished_at=Now())
    Fetch.objects.filter(pk=fourth.pk).update(state="failed", error="by hand", finished_at=Now())
    Fetch.objects.filter(pk=fourth.pk).update(state="cancelled")  # one end after the other
    Fetch.objects.filter(pk=fifth.pk).update(state="failed", error="by hand", finished_at=Now())
    Fetch.objects.filter(pk=fifth.pk).update(state="cancelled", batch=id_of("other"), finished_at=Now())
    request_fetch(f"https://{SITE}/alone")
    Fetch.objects.filter(url__endswith="/alone").update(batch=id_of(NAME))
    assert numbers("other") == recount("other")


def delete_one() -> None:
    """Delete a fetch that has not ended."""
    Fetch.objects.filter(state="queued")[0].delete()


MOVES: dict[str, Callable[[], object]] = {
    "asked for": lambda: ask(240),
    "no URL": lambda: request_fetches(["nonsense", "ftp://a.example/"], batch=NAME),
    "once": lambda: [ask(3, dedupe=True) for _ in range(2)],
    "dispatched": dispatch,
    "ended": lambda: end({"done": 6, "failed": 5, "queued": 2}),
    "lost": lose_all,
    "one cancelled": lambda: cancel(Fetch.objects.filter(state="queued").values_list("pk", flat=True)[0]),
    "retried": lambda: retry_batch(NAME, limit=4),
    "by hand": by_orm,
    "deleted before the end": delete_one,
    "all cancelled": lambda: cancel_batch(NAME),
    "retried again": lambda: retry_batch(NAME),
}


def test_the_numbers_equal_a_recount_after_each_move() -> None:
    """Before a fold, after one, and within the transaction that makes the move."""
    site_settings.set_rate(SITE, "1000/s", grace=timedelta(seconds=5))
    for number, (move, make) in enumerate(MOVES.items()):
        make()
        assert (move, numbers()) == (move, recount())
        if number % 2:
            counting.fold()
            assert (move, numbers()) == (move, recount())
    assert all(numbers()[each] for each in ("unfinished", "done", "failed", "cancelled"))
    with transaction.atomic():
        before = numbers()
        ask(7)
        assert numbers() == {**before, "unfinished": before["unfinished"] + 7}
        transaction.set_rollback(True)
    assert numbers() == before == recount()
    counting.fold()
    assert not BatchChange.objects.exists()
    assert numbers() == before


def test_no_update_has_copies_of_its_rows_kept() -> None:
    """PostgreSQL keeps them for each transition table, also of statements that end no fetch, such as dispatch's."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT array_agg(tgname), array_agg(tgname) FILTER (WHERE tgoldtable IS NOT NULL OR tgnewtable IS NOT NULL)
            FROM pg_trigger
            WHERE tgrelid = 'weir_fetches_fetch'::regclass AND tgtype & 16 <> 0  -- for updates
            """
        )
        triggers, with_copies = cursor.fetchone()
    assert "weir_fetches_moved_in_batch" in triggers
    assert with_copies is None


def test_no_transaction_waits_for_another_of_its_batch(other_connection: psycopg.Connection[Any]) -> None:
    """One that has ended a fetch, and asked for another, is open; others end, ask, and read the numbers of before."""
    first, *_ = ask(3)
    counting.fold()
    other_connection.execute(
        "UPDATE weir_fetches_fetch SET state = 'cancelled', finished_at = now() WHERE id = %s", [first]
    )
    other_connection.execute("SELECT FROM weir_fetches_batch WHERE name = %s FOR KEY SHARE", [NAME])  # as who asks
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
    try:
        ask(2)
        assert cancel(Fetch.objects.filter(batch__name=NAME).exclude(pk=first).values_list("pk", flat=True)[0])
        counting.settle()
    finally:
        connection.close()
    assert numbers() == {"unfinished": 4, "done": 0, "failed": 0, "cancelled": 1}
    other_connection.commit()
    assert numbers() == recount() == {"unfinished": 3, "done": 0, "failed": 0, "cancelled": 2}


def test_folds_and_ends_at_once_count_each_change_once(in_threads: InThreads) -> None:
    """Four sessions fold, while others ask and cancel; no deadlock, and nothing is lost or added twice."""

    def work(number: int) -> None:
        for _ in range(15):
            if number < 2:
                counting.settle()
            else:
                names = (NAME, "other")[:: 1 if number % 2 else -1]
                fetches = [request_fetch(f"https://{SITE}/", batch=name) for name in names]
                Fetch.objects.filter(pk__in=[fetch.pk for fetch in fetches]).order_by().update(priority=1)
                cancel(fetches[0].pk)

    ask(1), ask(1, batch="other")  # so that no call waits for the one that makes a batch
    in_threads(5, work)
    counting.settle()
    assert not BatchChange.objects.exists()
    for name in (NAME, "other"):
        assert numbers(name) == recount(name)
        assert sum(numbers(name).values()) == 46


FREE = "SELECT id FROM weir_fetches_batch WHERE name = 'running' FOR UPDATE SKIP LOCKED"


def test_purge_changes_no_number_and_deletes_a_batch_after_its_fetches(
    other_connection: psycopg.Connection[Any], settings: Settings
) -> None:
    """Not one that is unfinished or open, that has a call to make, or that another transaction is about to use."""
    settings.WEIR_FETCH_RETENTION = 3_600
    day = timedelta(days=1)
    ask(2, on_batch_done="shop.tasks.imported")
    ask(2, batch="used")
    ask(1, batch="running")
    [kept] = ask(1, batch="kept")
    request_fetches([], batch="open", more_to_come=True)
    cancel_batch(NAME), cancel_batch("used"), cancel_batch("kept")
    before = numbers()
    counting.settle()
    Fetch.objects.filter(finished_at__isnull=False).exclude(pk=kept).update(finished_at=Now() - day)
    Batch.objects.filter(ended_at__isnull=False).update(ended_at=Now() - day, on_done_called_at=None)
    purge()
    assert recount() == dict.fromkeys(before, 0)
    assert numbers() == before == {"unfinished": 0, "done": 0, "failed": 0, "cancelled": 2}
    ask(1, batch="used")
    counting.settle()  # it is unfinished again, and ends
    cancel_batch("used")
    counting.settle()
    Fetch.objects.filter(batch__name="used").delete()
    Batch.objects.filter(ended_at__isnull=False).update(ended_at=Now() - day)
    Batch.objects.filter(name=NAME).update(on_done_called_at=Now())
    with transaction.atomic():
        ask(1, batch="running")  # holds it
        assert not other_connection.execute(FREE).fetchall()
        transaction.set_rollback(True)
    other_connection.execute("SELECT FROM weir_fetches_batch WHERE name = 'used' FOR KEY SHARE")
    purge()
    assert set(Batch.objects.values_list("name", flat=True)) == {"used", "kept", "running", "open"}
    other_connection.rollback()
    PURGE_BATCHES(ids=[id_of("kept")])  # as if the fetch had been committed after the look for old batches
    purge()
    assert set(Batch.objects.values_list("name", flat=True)) == {"kept", "running", "open"}


FILL = """
    INSERT INTO weir_fetches_batch (name, unfinished, ended_at)
    SELECT 'b' || n, n %% 2, CASE WHEN n %% 2 = 0 THEN now() END FROM generate_series(1, 5000) AS n;
    INSERT INTO weir_fetches_fetch (url, hop_url, state, priority, max_attempts, site_id, batch_id, error, finished_at)
    SELECT 'https://a.example/' || n, '', (ARRAY['queued', 'failed'])[1 + n %% 2], 0, 5, 1,
        CASE WHEN n %% 4 < 2 THEN 7 END, 'no', CASE WHEN n %% 2 = 1 THEN now() END
    FROM generate_series(1, 20000) AS n;
    UPDATE weir_fetches_fetch SET batch_id = batch_id + 2 WHERE batch_id IS NOT NULL AND id %% 3 = 0;
"""
FETCHES, HISTORY = "weir.workers.fetches", "weir.workers.history"
STATEMENTS: dict[tuple[str, str], dict[str, Any]] = {
    (FETCHES, "hold_batch"): {"name": "b17"},
    (FETCHES, "fold_batches"): {"after": 0, "batches": 100, "changes": 10_000},
    (FETCHES, "end_batches"): {"most": 100},
    (FETCHES, "batch_counts"): {"ids": "{7,9}"},
    (FETCHES, "cancel_queued"): {"batch": 7, "most": 1_000},
    (FETCHES, "batch_sites"): {"batch": 7, "look": 100, "most": 3},
    (FETCHES, "old_batches"): {"older_than": 3_600.0, "most": 100},
    (FETCHES, "purge_batches"): {"ids": [1, 2]},
    (HISTORY, "batch_failures"): {"batch": 7, "look": 100},
}


@pytest.mark.parametrize("analyzed", [False, True])
def test_no_statement_reads_more_than_it_needs(*, analyzed: bool) -> None:
    """Whatever PostgreSQL's statistics say; and the numbers cost no look at a fetch."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, ())
        if analyzed:
            cursor.execute("ANALYZE weir_fetches_batch, weir_fetches_batchchange, weir_fetches_fetch")
    for (room, name), parameters in STATEMENTS.items():
        assert (name, scanned(room, name, parameters) & {"weir_fetches_batch", "weir_fetches_fetch"}) == (name, set())
    assert rows_read(FETCHES, "batch_counts", {"ids": "{7}"}, "weir_fetches_fetch") == 0
    assert rows_read(FETCHES, "batch_counts", {"ids": "{7}"}, "weir_fetches_batch", "weir_fetches_batchchange") <= 3
    assert rows_read(FETCHES, "batch_sites", {"batch": 7, "look": 100, "most": 3}, "weir_fetches_fetch") <= 101
    assert "weir_fetch_of_batch" in {
        node.get("Index Name") for node in plan_of(FETCHES, "cancel_queued", {"batch": 7, "most": 10})
    }
