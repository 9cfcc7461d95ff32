"""A flood of sites that are to be left alone holds up neither the questions of the recall watcher nor any site."""

import threading
from collections import Counter
from typing import Any

import pytest
from django.db import DataError

from tests.waiting import wait_for
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.pacing import CONFIRMED_FOR_S
from weir.ratelimit.slot_rows import Recall
from weir.workers.fetches.fetcher import recall_watcher
from weir.workers.fetches.fetcher.recall_watcher import PERIOD, RecallWatcher
from weir.workers.fetches.fetcher.refusals.rests import SiteRest

STATEMENT_S = 0.005  # by the clock of the test: no time is spent
SITES = 2_000


class Database:
    """What the watcher asks of PostgreSQL, by a clock that each statement moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0.0
        self.asked_at: list[float] = []
        self.told: list[str] = []
        self.unstorable = ""
        self.watcher: RecallWatcher
        self.locked: set[str] = set()
        self.answer: SiteRest | None = None  # comes while a statement runs
        self.answers = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        real = clock.now
        monkeypatch.setattr(clock, "now", lambda: real() + self.ahead_s)
        monkeypatch.setattr(slots, "recalls", self.recalls)
        monkeypatch.setattr(site_settings, "back_off", self.left_alone)
        monkeypatch.setattr(site_settings, "rest", self.left_alone)

    def recalls(self, _window_s: float) -> list[Recall]:
        assert self.may_answer.wait(20)
        self.asked_at.append(clock.now())
        return []

    def left_alone(self, site: str, *_args: Any, **_options: Any) -> float | None:
        self.told.append(site)
        if self.answer and self.answers:
            self.answers -= 1
            self.watcher.rest(self.answer)
        self.ahead_s += recall_watcher.PATIENCE if site in self.locked else STATEMENT_S
        if site == self.unstorable:
            raise DataError
        if site in self.locked:
            raise site_settings.SiteBusy(site)
        return None


def test_a_flood_of_refusals_holds_up_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 sites refuse at once, some rows are locked: answers stay fresh, and nearly all time goes into telling."""
    database = Database(monkeypatch)
    database.locked = {f"{n}.example" for n in range(0, 100, 10)}
    database.may_answer.clear()
    watcher = RecallWatcher(lambda _recalls, _asked_at: None, lambda: None)
    try:
        for n in range(SITES):
            watcher.rest(SiteRest(site=f"{n}.example", slot_id=n, is_refusal=n % 2 == 0))
        database.may_answer.set()  # or locked sites, whose patience takes no time here, come again before the last rest
        wait_for(lambda: len(set(database.told)) == SITES, 20, "all sites to be told of")
        database.locked = set()
    finally:
        assert watcher.close(20)
    gaps = [later - earlier for earlier, later in zip(database.asked_at, database.asked_at[1:], strict=False)]
    assert max(gaps) < 3 * PERIOD < CONFIRMED_FOR_S
    spent_s = database.asked_at[-1] - database.asked_at[0]
    assert spent_s < 1.25 * database.ahead_s, "there was something to tell, and it waited"
    first = {site: place for place, site in reversed(list(enumerate(database.told)))}
    assert all(first[f"{n}.example"] < n + 400 for n in range(SITES)), "a locked row comes again, behind the others"


def test_a_site_that_says_the_same_on_each_answer_costs_a_statement_between_two_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each statement finds the next answer come; other sites do not wait for it."""
    database = Database(monkeypatch)
    watcher = RecallWatcher(lambda _recalls, _asked_at: None, lambda: None)
    database.watcher = watcher
    database.answer = SiteRest(site="loud.example", slot_id=1, seconds=1.0, is_refusal=False)
    try:
        watcher.rest(database.answer)
        wait_for(lambda: len(database.asked_at) >= 10, 10, "some questions")
        watcher.rest(SiteRest(site="other.example", slot_id=2))
        wait_for(lambda: "other.example" in database.told, 10, "the other site to be told of")
    finally:
        assert watcher.close(10)
    # One is before the first question, and one at the end, when there may be none behind it.
    assert Counter(database.told)["loud.example"] <= 2 + len(database.asked_at)


def test_what_cannot_be_stored_of_one_site_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, and given up."""
    database = Database(monkeypatch)
    database.unstorable = "odd.example"
    watcher = RecallWatcher(lambda _recalls, _asked_at: None, lambda: None)
    try:
        for site in ("odd.example", "a.example", "b.example"):
            watcher.rest(SiteRest(site=site, slot_id=1))
        wait_for(lambda: len(database.told) == 3, 10, "all sites to be told of")
    finally:
        assert watcher.close(10)
    assert Counter(database.told)["odd.example"] == 1
