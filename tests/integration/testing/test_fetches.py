"""A fetch ends by `weir.testing` as it does by a fetcher."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import shared_task
from celery.exceptions import NotRegistered
from django.db import transaction
from django.db.transaction import TransactionManagementError

from weir.ratelimit import site_settings
from weir.ratelimit.models import Site
from weir.testing import CapturedFetches, captured_fetches
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.watches.models import Watch
from weir.workers.watches.watching import watch

URL = "https://a.example/1"
called: list[int] = []


@shared_task(name="tests.ended")
def ended(fetch_id: int) -> None:
    """Note the call."""
    called.append(fetch_id)


@pytest.fixture(params=["db", "transactional_db"])
def fetches(request: pytest.FixtureRequest) -> Iterator[CapturedFetches]:
    """Return what a test captures: in a transaction that is rolled back, and without one."""
    request.getfixturevalue(request.param)
    called.clear()
    with captured_fetches() as found:
        yield found


def test_what_is_asked_for_in_the_block(fetches: CapturedFetches) -> None:
    """In its order, and as it stands."""
    first, _ = request_fetches([URL, "https://b.example/"])
    assert (len(fetches), fetches.urls, fetches[0]) == (2, [URL, "https://b.example/"], first)
    assert [fetch.state for fetch in fetches[:]] == [FetchState.QUEUED, FetchState.QUEUED]
    assert URL in repr(fetches)
    with captured_fetches() as later:
        assert later.urls == []
        request_fetch(URL, dedupe=True)
        request_fetch(URL, dedupe=True)
        assert later.urls == [URL]


def test_what_is_rolled_back_was_never_asked_for(fetches: CapturedFetches) -> None:
    with transaction.atomic():
        request_fetch(URL)
        assert fetches.urls == [URL]
        transaction.set_rollback(True)
    assert fetches.urls == []


def test_a_request_that_changes_something_is_answered_as_any(fetches: CapturedFetches) -> None:
    """A test sees what would be sent; a redirect with 303 makes it a GET."""
    request_fetch(URL, method="PUT", json=[1], repeatable=True)
    assert [(fetch.method, fetch.request_body) for fetch in fetches] == [("PUT", b"[1]")]
    fetches.answer(URL, 303, headers={"Location": "/2"})
    fetch = fetches.answer(URL, 201, b"made")
    assert (fetch.state, fetch.content, fetch.redirect_chain) == (FetchState.DONE, b"made", [[303, f"{URL[:-1]}2"]])


def test_an_answer_is_stored(fetches: CapturedFetches) -> None:
    asked = request_fetch(URL, on_done=ended)
    fetch = fetches.answer(URL, body={"price": "4.20"}, headers={"ETag": '"1"', "Content-Type": "application/json"})
    assert (fetch, fetch.state, fetch.status_code, fetch.attempts) == (asked, FetchState.DONE, 200, 1)
    assert fetch.content == b'{"price": "4.20"}'
    assert fetch.etag == '"1"'
    assert called == [asked.pk]
    assert fetch.started_at is not None


def test_an_answer_of_now_may_be_asked_for_again(fetches: CapturedFetches) -> None:
    """A 304 is about the answer before, as fetches have it that revalidate."""
    request_fetch(URL)
    fetches.answer(URL, body="it", headers=[("ETag", '"1"')])
    request_fetch(URL, revalidate=True)
    again = fetches.answer(URL, 304)
    assert (again.state, again.status_code, again.content) == (FetchState.DONE, 304, b"it")


def test_an_error_of_the_site_is_an_attempt(fetches: CapturedFetches) -> None:
    request_fetch(URL, on_done=ended, max_attempts=2)
    assert fetches.answer(URL, 503).state == FetchState.QUEUED
    assert called == []
    fetch = fetches.answer(URL, 503)
    assert (fetch.state, fetch.error) == (FetchState.FAILED, "the site answered 503 (attempt 2 of 2)")
    assert called == [fetch.pk]


def test_a_redirect_is_followed(fetches: CapturedFetches) -> None:
    request_fetch(URL, on_done=ended)
    assert fetches.answer(URL, 302, headers={"Location": "https://b.example/2"}).hop_url == "https://b.example/2"
    assert fetches.answer(URL, body="there").state == FetchState.DONE
    assert len(called) == 1


def test_a_fetch_fails(fetches: CapturedFetches) -> None:
    fetch = fetches.fail(request_fetch(URL, on_done=ended), "no route to host")
    assert (fetch.state, fetch.error, called) == (FetchState.FAILED, "no route to host", [fetch.pk])


def test_a_paused_site_answers(fetches: CapturedFetches) -> None:
    """Its clock is left as it is."""
    request_fetch(URL)
    site_settings.pause("a.example")
    before = Site.objects.get(name="a.example").next_start
    assert fetches.answer(URL).state == FetchState.DONE
    assert Site.objects.get(name="a.example").next_start == before


def test_what_cannot_be_answered(fetches: CapturedFetches) -> None:
    with pytest.raises(LookupError, match=r"https://a.example/1 was not asked for\. What was: \[\]\."):
        fetches.answer(URL)
    request_fetch(URL)
    with transaction.atomic(), pytest.raises(TransactionManagementError):
        fetches.answer(URL)
    fetches.answer(URL)
    with pytest.raises(ValueError, match="cannot be answered: it is done"):
        fetches.answer(URL)
    with pytest.raises(ValueError, match="it is failed"):
        fetches.answer(request_fetch("no URL"))


def test_no_task_has_the_name(fetches: CapturedFetches) -> None:
    """The test is told, whose code would call nothing."""
    request_fetch(URL, on_done="tests.misspelt")
    with pytest.raises(NotRegistered):
        fetches.answer(URL)
    assert Fetch.objects.get(url=URL).state == FetchState.DONE


def test_a_watch_calls_its_task_for_a_change(fetches: CapturedFetches) -> None:
    """Without waiting for its period."""
    watch(URL, every=timedelta(days=1), on_change=ended)
    for body in ("1", "1", "2"):
        fetches.watch()
        fetch = fetches.answer(URL, body=body)
    assert (called, len(fetches)) == ([fetch.pk], 3)
    fetches.watch()
    fetches.fail(URL)
    assert Watch.objects.failing().count() == 1
