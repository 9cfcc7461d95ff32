"""The same body is kept once, goes with the last fetch that has it, and never while another one comes to have it."""

import os
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import Eventually, InThreads, WaitersOf, database_now, waiting_for_nobody
from tests.integration.fetcher.test_store import done, failed
from tests.integration.fetching import SITE, running
from weir.ratelimit.models import Site
from weir.workers.fetches.bodies.keeping import ONCE_FROM
from weir.workers.fetches.fetcher.results.store import store, store_surely
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.maintenance import bodies
from weir.workers.fetches.maintenance.bodies import purge_bodies
from weir.workers.fetches.maintenance.purge import purge
from weir.workers.fetches.models import (
    BodyGone,
    BodyKeeping,
    Fetch,
    FetchBody,
    FetchState,
    KeptBody,
    ReleasedBody,
)
from weir.workers.fetches.reports.fetch_way import fetch_way
from weir.workers.fetches.retrying import retry_failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

PAGE = b"<html>" + b"x" * ONCE_FROM
MANY = 10_000 if "WEIR_FAULTS" in os.environ else 300


@pytest.fixture(autouse=True)
def _keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are kept once, as after a turn of their purge, and may go at any age."""
    purge_bodies()
    monkeypatch.setattr(bodies, "YOUNG_S", 0.0)


def make_old(age: timedelta = timedelta(days=40)) -> None:
    Fetch.objects.filter(finished_at__isnull=False).update(finished_at=database_now() - age)


def test_the_same_body_is_kept_once_however_many_fetches_have_it(in_threads: InThreads) -> None:
    """Stored by four writers at once, in one statement or in several, beside their own; each is read whole."""
    site = Site.objects.create(name=SITE, interval=timedelta(seconds=1))
    until = database_now() + timedelta(hours=1)
    held = Fetch.objects.bulk_create(
        Fetch(url="u", site=site, state=FetchState.RUNNING, slot_id=number, lease_until=until)
        for number in range(1, MANY + 1)
    )
    other = [os.urandom(ONCE_FROM) for _ in range(4)]

    def store_some(number: int) -> None:
        mine = held[number::4]
        outcomes = [
            FetchOutcome(
                fetch_id=fetch.pk,
                slot_id=fetch.slot_id or 0,
                state=FetchState.DONE,
                status_code=200,
                content=other[number] if place == 7 else PAGE,
            )
            for place, fetch in enumerate(mine)
        ]
        for first in range(0, len(mine), 50):
            store_surely(outcomes[first : first + 50])

    in_threads(4, store_some)
    assert Fetch.objects.filter(state=FetchState.DONE).count() == MANY
    assert sorted(bytes(kept.content or b"") for kept in KeptBody.objects.all()) == sorted([PAGE, *other])
    assert not FetchBody.objects.filter(own__isnull=False).exists()
    assert {fetch.content for fetch in Fetch.objects.all()[:60]} <= {PAGE, *other}


def test_a_short_body_is_kept_with_its_fetch() -> None:
    """Two rows would take more room than one."""
    jobs = running(2)
    store([done(job, content=PAGE[: ONCE_FROM - 1]) for job in jobs])
    assert not KeptBody.objects.exists()
    assert {fetch.content for fetch in Fetch.objects.all()} == {PAGE[: ONCE_FROM - 1]}


@pytest.mark.parametrize("turned", [None, timedelta(hours=1)])
def test_without_turns_of_the_purge_each_fetch_has_its_own(turned: timedelta | None) -> None:
    """So a version that knows no kept bodies, which sends no such tick, can read what it finds."""
    BodyKeeping.objects.all().delete()
    if turned:
        BodyKeeping.objects.create(turned_at=database_now() - turned)
    jobs = running(2)
    store([done(job, content=PAGE) for job in jobs])
    assert [bytes(body.own or b"") for body in FetchBody.objects.all()] == [PAGE, PAGE]
    assert not KeptBody.objects.exists()


def test_a_body_goes_with_the_last_fetch_that_has_it() -> None:
    """Whoever deletes the fetches: purge, a project's own code, or a version that knows no kept bodies."""
    jobs = running(3)
    store([done(job, content=PAGE) for job in jobs])
    Fetch.objects.filter(pk=jobs[0].fetch_id).delete()
    FetchBody.objects.filter(pk=jobs[1].fetch_id).delete()
    purge_bodies()
    assert Fetch.objects.get(pk=jobs[2].fetch_id).content == PAGE
    make_old()
    assert purge() == 2
    assert KeptBody.objects.count() == 1
    purge_bodies()
    assert not KeptBody.objects.exists()
    assert not ReleasedBody.objects.exists()


def test_a_retry_takes_its_part_of_a_body_along() -> None:
    """What came of a broken answer is kept like other bodies."""
    [job] = running()
    store([failed(job, content=PAGE, incomplete="cut")])
    assert KeptBody.objects.count() == 1
    assert retry_failed(Fetch.objects.all()).queued == 1
    purge_bodies()
    assert not KeptBody.objects.exists()


def test_a_young_body_is_asked_about_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may refer to one that another store has inserted a moment ago, without holding it."""
    [job] = running()
    store([done(job, content=PAGE)])
    Fetch.objects.all().delete()
    monkeypatch.setattr(bodies, "YOUNG_S", 3_600.0)
    purge_bodies()
    assert KeptBody.objects.count() == ReleasedBody.objects.count() == 1
    monkeypatch.setattr(bodies, "YOUNG_S", 0.0)
    purge_bodies()
    assert not KeptBody.objects.exists()


def test_purge_leaves_a_body_that_a_store_refers_to_at_this_moment(other_connection: psycopg.Connection[Any]) -> None:
    """The store holds it; the purge waits for nobody, and asks again in its next turn."""
    [job] = running()
    store([done(job, content=PAGE)])
    Fetch.objects.all().delete()
    other_connection.execute("SELECT FROM weir_fetches_keptbody FOR KEY SHARE")
    with waiting_for_nobody():
        purge_bodies()
    assert KeptBody.objects.count() == 1
    other_connection.rollback()
    purge_bodies()
    assert not KeptBody.objects.exists()


def test_a_store_inserts_a_body_anew_that_purge_deletes_at_this_moment(
    in_threads: InThreads, other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """It waits for the purge, and no fetch refers to a body that is gone."""
    first, second = running(2)
    store([done(first, content=PAGE)])
    Fetch.objects.filter(pk=first.fetch_id).delete()
    other_connection.execute("DELETE FROM weir_fetches_keptbody")

    def store_or_commit(number: int) -> None:
        if number:
            store([done(second, content=PAGE)])
        else:
            eventually(lambda: waiters(other_connection), "the store waits for the purge")
            other_connection.commit()

    in_threads(2, store_or_commit)
    assert Fetch.objects.get(pk=second.fetch_id).content == PAGE


# --- retention ----------------------------------------------------------------------------------------------------


def test_bodies_may_go_before_their_fetches(settings: Settings) -> None:
    """Own, shared, and of a version before; a younger one stays. Who reads a deleted one is told so."""
    settings.WEIR_FETCH_BODY_RETENTION = 7 * 86_400.0
    jobs = running(4)
    store([done(jobs[0], content=PAGE), done(jobs[1], content=b"short"), done(jobs[2], content=b"short")])
    make_old(timedelta(days=8))
    store([done(jobs[3], content=PAGE)])
    purge_bodies()
    assert Fetch.objects.get(pk=jobs[3].fetch_id).content == PAGE
    for job in jobs[:3]:
        with pytest.raises(BodyGone, match=r"was deleted before the fetch: WEIR_FETCH_BODY_RETENTION"):
            _ = Fetch.objects.get(pk=job.fetch_id).content
    make_old(timedelta(days=9))
    BodyKeeping.objects.update(deleted_until=None)
    purge_bodies()
    purge_bodies()
    assert not KeptBody.objects.exists()
    assert Fetch.objects.count() == 4


def test_the_purge_of_old_bodies_goes_on_where_it_was(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads each end once, in short batches; fetches that ended at the same moment are in the same one."""
    settings.WEIR_FETCH_BODY_RETENTION = 7 * 86_400.0
    monkeypatch.setattr(bodies, "BATCH", 3)
    jobs = running(8)
    store([done(job, content=b"short") for job in jobs])
    make_old(timedelta(days=9))
    Fetch.objects.filter(pk__in=[job.fetch_id for job in jobs[:3]]).update(
        finished_at=database_now() - timedelta(days=8)
    )
    purge_bodies()
    assert not FetchBody.objects.filter(own__isnull=False).exists()
    assert BodyKeeping.objects.get().deleted_until == Fetch.objects.latest("finished_at").finished_at


def test_a_body_stays_as_long_as_a_younger_304_refers_to_it(settings: Settings) -> None:
    """And goes when that is old, too."""
    settings.WEIR_FETCH_BODY_RETENTION = 7 * 86_400.0
    first, later = running(2)
    store([done(first, content=PAGE)])
    make_old(timedelta(days=8))
    store([done(later, content=b"", status_code=304, unchanged_from=first.fetch_id)])
    purge_bodies()
    assert Fetch.objects.get(pk=later.fetch_id).content == PAGE
    Fetch.objects.filter(pk=later.fetch_id).update(finished_at=database_now() - timedelta(days=7, hours=1))
    purge_bodies()
    with pytest.raises(BodyGone):
        _ = Fetch.objects.get(pk=later.fetch_id).content
    with pytest.raises(BodyGone):
        _ = Fetch.objects.get(pk=first.fetch_id).content


def test_the_text_of_an_unchanged_page_is_that_of_its_body() -> None:
    """A 304 need not say of which type the page is, and Django's says that it is HTML in UTF-8."""
    first, *later = running(3)
    typed = '[["Content-Type", "text/plain; charset=koi8-r"]]'
    store([done(first, content=b"\xc1\xc2", headers=typed)])
    other = typed.replace("plain; charset=koi8-r", "html; charset=utf-8")
    for job, headers in zip(later, ("[]", other), strict=True):
        store([done(job, content=b"", status_code=304, unchanged_from=first.fetch_id, headers=headers)])
    expected = "\N{CYRILLIC SMALL LETTER A}\N{CYRILLIC SMALL LETTER BE}"
    assert {fetch.text for fetch in Fetch.objects.all()} == {expected}
    previews = [fetch_way(fetch.pk).preview for fetch in Fetch.objects.all()]
    assert {shown and shown.text for shown in previews} == {expected}


def test_the_purge_finds_its_rows_through_indexes() -> None:
    """Whatever the statistics say of a table that was empty a moment ago."""
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("EXPLAIN SELECT fetch_id FROM weir_fetches_fetchbody WHERE sha256 = '\\x00' LIMIT 1")
        plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "weir_fetchbody_sha256" in plan
