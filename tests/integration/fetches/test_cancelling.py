"""Cancelling: a fetch that has not begun ends immediately, and its slot goes to the next fetch of its site."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from pytest_django import Settings

from tests.integration.conftest import Eventually, Message, WaitersOf, claimed, claimed_all
from tests.integration.fetching import reserve_all
from weir.postgres import own_commits
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Slot
from weir.ratelimit.pacing import Confirmation
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.fetcher import claim as claiming
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

URL = "https://site.example/page"


def test_a_queued_fetch_is_cancelled(messages: list[Message]) -> None:
    """A fetch that no fetcher holds is cancelled immediately, and its `on_done` is called."""
    fetch = request_fetch(URL, on_done="shop.tasks.arrived")
    messages.clear()
    assert cancel(fetch.pk)
    stored = Fetch.objects.get()
    assert stored.state == FetchState.CANCELLED
    assert stored.finished_at is not None
    assert stored.on_done_called_at is not None
    assert messages == [("shop.tasks.arrived", (fetch.pk,))]
    assert dispatch() == 0


def test_a_reserved_fetch_is_cancelled_and_its_slot_goes_to_another() -> None:
    """The message that was sent claims nothing any more; the slot is given back."""
    site_settings.set_rate("site.example", "1/10s")
    fetch = request_fetch(URL)
    assert dispatch() == 1
    slot = Slot.objects.get()
    assert cancel(fetch.pk)
    assert Fetch.objects.get().state == FetchState.CANCELLED
    slot.refresh_from_db()
    assert slot.released_at is not None
    assert claiming.claim([slot.pk], Confirmation(asked_at=math.inf)) == []
    assert Fetch.objects.get().state == FetchState.CANCELLED


@pytest.mark.parametrize("successors", [0, 1])
def test_a_cancel_that_waits_for_a_reservation_sees_the_slot(
    successors: int,
    other_connection: psycopg.Connection[Any],
    waiters: WaitersOf,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The slot is committed after the cancel has begun: it is given back, or passed on, like any other."""
    site_settings.set_rate("site.example", "1/10s")
    _, chosen = (request_fetch(URL, priority=priority) for priority in (2, 1))
    monkeypatch.setattr(own_commits, "refuse_transaction", lambda _what: None)  # so that the commit can be waited for

    def cancelled() -> bool:
        try:
            return cancel(chosen.pk)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert len(reserve_all()) == 2
            request_fetches([URL] * successors)
            answer = pool.submit(cancelled)
            eventually(lambda: waiters(other_connection) == 1, "the cancel to wait for the reservation")
        assert answer.result(20)

    assert Fetch.objects.get(pk=chosen.pk).state == FetchState.CANCELLED
    slot = Slot.objects.latest("start_time")
    assert Fetch.objects.filter(slot_id=slot.pk, state=FetchState.RESERVED).count() == successors
    assert (slot.released_at is None) == (successors == 1)


def test_a_fetch_that_starts_within_half_a_second_is_not_cancelled() -> None:
    """A fetcher holds it, and may not learn of it in time."""
    fetch = request_fetch(URL)
    dispatch()
    claimed(fetch.pk)
    assert not cancel(fetch.pk)
    assert Fetch.objects.get().state == FetchState.RUNNING
    assert Slot.objects.get().passed_on_at is None


@pytest.mark.parametrize("is_claimed", [False, True], ids=["on its way", "held by a fetcher"])
def test_the_slot_of_a_cancelled_fetch_goes_to_the_next_of_its_site(settings: Settings, is_claimed: bool) -> None:
    """The best waiting fetch takes its place in the run, with its lease; the fetcher learns of it."""
    settings.WEIR_LOOKAHEAD = 15.0  # for two
    site_settings.set_rate("site.example", "1/10s")
    _, chosen, low, high = (request_fetch(URL, priority=priority) for priority in (3, 2, 0, 1))
    assert dispatch() == 2
    if is_claimed:
        claimed(chosen.pk)
    chosen.refresh_from_db()
    assert cancel(chosen.pk)
    assert Fetch.objects.get(pk=chosen.pk).state == FetchState.CANCELLED
    assert Fetch.objects.get(pk=low.pk).state == FetchState.QUEUED
    high.refresh_from_db()
    assert (high.state, high.slot_id, high.lease_until) == (chosen.state, chosen.slot_id, chosen.lease_until)
    assert [recall.passed_on for recall in slots.recalls(60) if recall.passed_on] == [chosen.slot_id] * is_claimed
    slot = Slot.objects.get(pk=chosen.slot_id or 0)
    assert (slot.released_at, slot.finished_at) == (None, None)
    if not is_claimed:
        job = claimed(high.pk)
        assert job.slot_id == chosen.slot_id


def test_a_held_slot_without_a_successor_is_left_empty(settings: Settings) -> None:
    """It is not given back: a reservation might take it before its fetcher knows."""
    settings.WEIR_LOOKAHEAD = 15.0  # for two
    site_settings.set_rate("site.example", "1/10s")
    ids = [fetch.pk for fetch in request_fetches([URL] * 2)]
    assert dispatch() == 2
    claimed_all(ids)
    assert cancel(ids[1])
    assert not Slot.objects.filter(released_at__isnull=False).exists()
    assert Slot.objects.filter(passed_on_at__isnull=False).count() == 1


def test_an_ended_or_unknown_fetch_is_not_cancelled() -> None:
    """Cancelling twice is cancelling once."""
    fetch = request_fetch(URL)
    assert [cancel(fetch.pk), cancel(fetch.pk), cancel(fetch.pk + 1)] == [True, False, False]


def test_cancel_refuses_to_run_inside_a_transaction() -> None:
    """A cancelled fetch must not come back by a roll-back."""
    fetch = request_fetch(URL)
    with pytest.raises(TransactionManagementError), transaction.atomic():
        cancel(fetch.pk)
    assert Fetch.objects.get().state == FetchState.QUEUED
