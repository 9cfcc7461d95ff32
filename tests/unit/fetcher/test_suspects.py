"""Suspects, answers to fetches that were lost with two fetchers, are read one at a time, and given back at a stop."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.fetcher.test_writer import Store, hostile, of_site, store, writing
from tests.waiting import wait_for
from weir.workers.backoff import LONGEST_S
from weir.workers.fetches.fetcher.results import writer
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.jobs import STORING, Answer, Event, FetchOutcome, HeldBytes, longest_answer_s
from weir.workers.fetches.models import FetchState

__all__ = ["store"]  # a fixture


@pytest.fixture
def in_hand(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stand for PostgreSQL, and return the list of what was taken in hand; another fetcher has fetch 99 by now."""
    taken: list[int] = []

    def take(*, fetch_id: int, slot_id: int) -> bool:
        assert slot_id == 70
        taken.append(fetch_id)
        return fetch_id != 99

    monkeypatch.setattr(writer, "take_in_hand", take)
    return taken


def lost_before(fetch: int, losses: int, start_until: float = inf) -> Answer:
    event = of_site(fetch, fetch)
    run = replace(event.job.run, start_until=start_until)
    return replace(event, job=replace(event.job, losses=losses, run=run), held=HeldBytes(site_id=fetch))


def test_a_suspect_is_read_last_and_alone(store: Store, in_hand: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is known to be in hand, and all others are stored. What was lost once, as all of a fetcher's, is none."""
    judged: list[tuple[int, list[int]]] = []

    def seen(event: Event, **options: object) -> FetchOutcome:
        judged.append((event.job.fetch_id, in_hand[:]))
        return judge(event, **options)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(writer, "judge", seen)
    losses = {1: writer.SUSPECT_LOSSES, 2: 0, 3: 1, 4: 7, 5: 0}
    with writing(store, [lost_before(fetch, count) for fetch, count in losses.items()]):
        pass
    assert store.ids == [[0], [2, 3, 5], [1], [4]]
    assert judged[1:] == [(2, []), (3, []), (5, []), (1, [1]), (4, [1, 4])]


def test_what_comes_meanwhile_does_not_wait_for_all_suspects(
    store: Store, in_hand: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step has those of a PERIOD, one at least: each takes longer here."""
    now = [0.0]
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: 0.0))
    steps: list[tuple[str, int]] = []
    what_came, suspects = writer.Writer._judge_what_came, writer.Writer._store_suspects

    def slow(event: Event, **options: object) -> FetchOutcome:
        now[0] += 0.04
        return judge(event, **options)  # type: ignore[arg-type]  # as they were given

    def note(name: str, step: Callable[[writer.Writer], Any], of: writer.Writer) -> object:
        steps.append((name, len(in_hand)))
        return step(of)

    monkeypatch.setattr(writer, "judge", slow)
    monkeypatch.setattr(writer.Writer, "_judge_what_came", lambda of: note("all", what_came, of))
    monkeypatch.setattr(writer.Writer, "_store_suspects", lambda of: note("suspects", suspects, of))
    with writing(store, [lost_before(fetch, 2) for fetch in range(1, 8)]):
        pass
    assert [count for name, count in steps if name == "all"][-3:] == [0, 3, 6]


def test_a_suspect_goes_back_before_its_lease_is_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL is far away, and more wait than can be read: else each would be lost once more, and in time fail."""
    now = [0.0]
    monkeypatch.setattr(writer, "clock", SimpleNamespace(now=lambda: now[0]))
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: 0.0))

    def take(**_fetch: int) -> bool:
        now[0] += 1.0
        return True

    monkeypatch.setattr(writer, "take_in_hand", take)
    waits_s = longest_answer_s() + STORING / 2
    with writing(store, [lost_before(fetch, 2, start_until=5.5 - waits_s) for fetch in range(1, 101)]):
        pass
    *alone, given_back = store.statements[1:]
    assert [[outcome.fetch_id for outcome in each] for each in alone] == [[fetch] for fetch in range(1, 7)]
    assert {outcome.state for [outcome] in alone} == {FetchState.DONE}
    assert [outcome.fetch_id for outcome in given_back] == list(range(7, 101))
    for told in given_back:
        assert (told.state, told.attempted, told.slot_used, told.is_lost) == (FetchState.QUEUED, False, True, False)
        assert 0 < told.delay_s <= LONGEST_S
    assert len({outcome.delay_s for outcome in given_back}) == len(given_back), "not all at the same time"


def test_a_suspect_that_is_not_held_any_more_is_not_read(store: Store, in_hand: list[int]) -> None:
    """It was cancelled, or taken back. Its room is free."""
    made = writer.Writer(store.stored)
    store.may_go_on.set()
    for fetch in (99, 1):
        made.put(lost_before(fetch, 2))
    assert made.close(60)
    assert (in_hand, store.ids, store.freed) == ([99, 1], [[1]], [1, 1])


@pytest.mark.parametrize("gated", [1, 21], ids=["suspect", "costly"])
def test_what_is_not_read_in_time_when_the_fetcher_stops_goes_back_unread(
    gated: int, store: Store, in_hand: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deploy is no loss: what waits is asked again, at no attempt. What is being read is stored."""
    monkeypatch.setattr(writer, "GIVING_BACK_S", 60.0, raising=False)
    is_read, may_end = threading.Event(), threading.Event()

    def slow(event: Event, **options: object) -> FetchOutcome:
        if event.job.fetch_id == gated and options["budget_s"] is None:
            is_read.set()
            assert may_end.wait(60)
        return judge(event, **options)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(writer, "judge", slow)
    store.may_go_on.set()
    made = writer.Writer(store.stored)
    for event in (lost_before(1, 2), lost_before(2, 2)) if gated == 1 else (hostile(2, 21), hostile(3, 31)):
        made.put(event)
    assert is_read.wait(60)
    for event in (lost_before(4, 2), of_site(5, 5), hostile(6, 61)):
        made.put(event)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(made.close, 0.0)
        wait_for(lambda: closing.done() or made._is_late, 60, "the writer to be late")
        may_end.set()
        assert closing.result(60)
    became = {outcome.fetch_id: outcome for outcomes in store.statements for outcome in outcomes}
    given_back = {2 if gated == 1 else 31, 4, 5, 61}
    assert became.keys() == {gated, *given_back}
    assert became[gated].state in {FetchState.DONE, FetchState.FAILED}
    for fetch in given_back:
        told = became[fetch]
        assert (told.state, told.attempted, told.slot_used, told.error) == (FetchState.QUEUED, False, True, "")
    assert in_hand == ([1] if gated == 1 else [])
    assert sum(store.freed) == len(became)
