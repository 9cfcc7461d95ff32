"""What is lost with a fetcher, and what that counts: an attempt of what it had in hand, and of nothing beside it."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.db.models import F

from tests.integration.conftest import InThreads, Message, claim, database_now
from tests.integration.maintenance.test_sweep import ARRIVED, GRACE, HOUR, URL, expire, lost_process, running
from tests.integration.plans import rows_read
from weir.ratelimit.models import Site, Slot
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.results import store
from weir.workers.fetches.fetcher.results.outcomes import UNCOUNTED_LOSSES
from weir.workers.fetches.jobs import STORING, FetchOutcome
from weir.workers.fetches.maintenance import sweep as sweeping
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.processes.models import Process

__all__ = ["lost_process"]  # a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def take_in_hand(fetch: Fetch) -> None:
    """Let the fetcher that holds the fetch note that it has this one in hand."""
    assert store.take_in_hand(fetch_id=fetch.pk, slot_id=fetch.slot_id or 0)


def test_a_lost_fetcher_costs_an_attempt_of_what_it_had_in_hand() -> None:
    """All that it held may have been sent: slots are used, and each waits a while. For no robots.txt, though."""
    in_hand, *_ = running(3)
    take_in_hand(Fetch.objects.get(pk=in_hand))
    expire()
    assert sweep() == 3
    now = database_now()
    for fetch in Fetch.objects.all():
        assert (fetch.state, fetch.attempts, fetch.slot_id) == (FetchState.QUEUED, int(fetch.pk == in_hand), None)
        assert (fetch.losses, fetch.in_hand, fetch.due_since) == (1, False, None)
        assert "died" in fetch.error
        assert timedelta(0) < fetch.not_before - now <= timedelta(seconds=1)
    assert Slot.objects.filter(finished_at__isnull=False).count() == 3


def test_what_is_beside_a_fetch_in_hand_is_not_charged_for_it(
    lost_process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many fetches kill fetchers beside it. Also what is taken back in another batch, or in a later sweep."""
    monkeypatch.setattr(sweeping, "MOST_FOUND", 2)
    in_hand, *beside, waits, elsewhere = running(6, max_attempts=3)
    Fetch.objects.update(losses=UNCOUNTED_LOSSES)
    Fetch.objects.filter(pk=elsewhere).update(claimed_by=lost_process.pk + 1)
    take_in_hand(Fetch.objects.get(pk=in_hand))
    Fetch.objects.exclude(pk=waits).update(lease_until=database_now() - HOUR)
    assert sweep() == len(beside) + 1, "it waits for what its fetcher still holds"
    Fetch.objects.filter(lease_until__isnull=False).update(lease_until=database_now() - HOUR)
    assert sweep() == 2
    rows = Fetch.objects.values_list("pk", "losses", "attempts")
    assert {losses for _, losses, _ in rows} == {UNCOUNTED_LOSSES + 1}
    assert {pk for pk, _, attempts in rows if attempts} == {in_hand, elsewhere}
    assert set(Fetch.objects.values_list("state", "in_hand")) == {(FetchState.QUEUED, False)}
    assert Slot.objects.filter(finished_at__isnull=False).count() == 6


@pytest.mark.parametrize(("state", "rows"), [(FetchState.RESERVED, 1), (FetchState.RUNNING, 1 + 60)])
def test_what_fetchers_hold_is_looked_at_where_one_of_them_lost_something(state: FetchState, rows: int) -> None:
    """Not for lost messages, of which there are thousands where a broker is emptied: nobody had these in hand."""
    lost, *_ = running(60)
    Fetch.objects.update(lease_until=database_now() + HOUR)
    Fetch.objects.filter(pk=lost).update(state=state, lease_until=database_now() - HOUR)
    assert rows_read("weir.workers.fetches", "lost", {"most": sweeping.MOST_FOUND}, "weir_fetches_fetch") == rows


def test_the_last_attempt_that_is_lost_is_a_stated_failure(messages: list[Message]) -> None:
    """A fetch that kills its fetcher each time ends, and its `on_done` is called."""
    [fetch_id] = running(max_attempts=1, on_done=ARRIVED)
    take_in_hand(Fetch.objects.get())
    expire()
    messages.clear()
    assert sweep() == 1
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.attempts) == (FetchState.FAILED, 1)
    assert fetch.finished_at is not None
    assert "attempt 1 of 1" in fetch.error
    assert messages == [(ARRIVED, (fetch_id,))]
    assert fetch.on_done_called_at is not None


def test_what_is_taken_in_hand_after_its_lease_is_held_until_it_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where sweep has seen it just before that: should its fetcher die, that counts an attempt, and once."""
    running()
    expire()

    def in_hand_meanwhile(outcomes: Sequence[FetchOutcome]) -> set[int]:
        take_in_hand(Fetch.objects.get())
        return store.store(outcomes)

    with monkeypatch.context() as seen_before:
        seen_before.setattr(sweeping, "store", in_hand_meanwhile)
        assert sweep() == 1
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.in_hand, fetch.losses) == (FetchState.RUNNING, True, 0)
    expire()
    assert sweep() == 1
    fetch = Fetch.objects.get()
    assert (fetch.state, fetch.in_hand, fetch.losses, fetch.attempts) == (FetchState.QUEUED, False, 1, 1)


@pytest.mark.parametrize("left_s", [-1, 1, 600])
def test_what_is_in_hand_has_the_time_for_storing(left_s: int) -> None:
    """Whatever its lease has left, which is not made shorter: its fetcher, which lives, is not said to have died."""
    running()
    before = database_now()
    Fetch.objects.update(lease_until=before + timedelta(seconds=left_s))
    take_in_hand(Fetch.objects.get())
    lease_until = Fetch.objects.get().lease_until
    assert lease_until is not None
    assert before + timedelta(seconds=max(left_s, STORING)) <= lease_until
    assert lease_until <= database_now() + timedelta(seconds=max(left_s, STORING))
    assert sweep() == 0


def test_who_claims_a_fetch_does_not_have_it_in_hand_yet() -> None:
    """Its answer is still to come, whatever mark an earlier run has left: its loss is no attempt."""
    [fetch_id] = running()
    take_in_hand(Fetch.objects.get())
    Fetch.objects.update(state=FetchState.QUEUED, slot_id=None, lease_until=None)
    Site.objects.update(next_start=F("next_start") - HOUR, has_backlog=True)
    assert dispatch() == 1
    assert len(claim([fetch_id])) == 1
    assert not Fetch.objects.get().in_hand
    expire()
    assert sweep() == 1
    assert (Fetch.objects.get().attempts, Fetch.objects.get().losses) == (0, 1)


@pytest.mark.usefixtures("lost_process")
def test_who_gets_the_slot_of_a_cancelled_fetch_is_not_in_hand_yet() -> None:
    """By a mark of an earlier run, it would wait for all else that its fetcher holds, and be charged."""
    *_, last = running(20)  # whose slot lies two seconds ahead
    successor = request_fetch(URL)
    Fetch.objects.filter(pk=successor.pk).update(in_hand=True)
    assert cancel(last)
    successor.refresh_from_db()
    assert (successor.state, successor.in_hand) == (FetchState.RUNNING, False)


def test_a_fetch_that_is_lost_again_and_again_ends() -> None:
    """Beyond so many losses each one counts, so that max_attempts bounds what can be lost."""
    [fetch_id] = running(max_attempts=3)
    for attempts in (*[0] * UNCOUNTED_LOSSES, 1, 2):
        expire()
        assert sweep() == 1
        assert (Fetch.objects.get().state, Fetch.objects.get().attempts) == (FetchState.QUEUED, attempts)
        Fetch.objects.update(not_before=F("not_before") - HOUR)
        Site.objects.update(**{name: F(name) - HOUR for name in ("due_at", "next_start")}, grace=GRACE)
        assert dispatch() == 1
        assert len(claim([fetch_id])) == 1
    expire()
    assert sweep() == 1
    assert (Fetch.objects.get().state, Fetch.objects.get().attempts) == (FetchState.FAILED, 3)


def test_sweeps_at_once_count_a_loss_once(in_threads: InThreads) -> None:
    """However many run together, each fetch is lost once."""
    running(60)
    Fetch.objects.update(in_hand=True)
    expire()
    in_threads(3, lambda _number: sweep())
    assert set(Fetch.objects.values_list("state", "attempts", "losses")) == {(FetchState.QUEUED, 1, 1)}
