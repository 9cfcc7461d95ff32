"""The writer's turns are bounded in time, count and bytes, whatever waits, and costly answers hold up no others."""

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tests.unit.fetcher.test_outcomes import CAP, answer, job
from weir.workers.fetches.fetcher.results import costly, decoding, writer
from weir.workers.fetches.fetcher.results.contents import UNREAD
from weir.workers.fetches.fetcher.results.costly import CostlyAnswers
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.jobs import Answer, Event, FetchOutcome, HeldBytes
from weir.workers.fetches.models import FetchState

EMPTY = gzip.compress(b"", mtime=0)
MEMBERS = gzip.compress(EMPTY * (CAP // len(EMPTY)), mtime=0)  # 13 KB that take as long as they may
PAGE = gzip.compress(b"<html>" * 1_000, mtime=0)


def of_site(site: int, fetch: int, body: bytes = PAGE, encoding: bytes = b"gzip") -> Answer:
    to = replace(job(), site_id=site, fetch_id=fetch)
    return answer(200, ("Content-Encoding", encoding), body=body, to=to)


def hostile(site: int, fetch: int) -> Answer:
    return of_site(site, fetch, MEMBERS, b"gzip, gzip")


class Store:
    """Stands for PostgreSQL: takes what is stored, one list a statement, once it may."""

    def __init__(self) -> None:
        self.statements: list[list[FetchOutcome]] = []
        self.freed: list[int] = []
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()

    def __call__(self, outcomes: list[FetchOutcome]) -> None:
        self.is_asked.set()
        assert self.may_go_on.wait(60)
        self.statements.append(outcomes)

    def stored(self, events: int, _all_held: list[HeldBytes]) -> None:
        self.freed.append(events)

    @property
    def ids(self) -> list[list[int]]:
        return [[outcome.fetch_id for outcome in outcomes] for outcomes in self.statements]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(writer, "store_surely", made)
    return made


@pytest.fixture
def _time_is_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the writer count its own work only: what else runs here is of no matter."""
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=time.thread_time, thread_time=time.thread_time))


@contextmanager
def writing(store: Store, events: list[Event]) -> Iterator[None]:
    """Let the writer find all these events waiting, and end when it has stored them."""
    made = writer.Writer(store.stored)
    made.put(of_site(0, 0))  # with which it waits until all others are there
    assert store.is_asked.wait(60)
    for event in events:
        made.put(event)
    store.may_go_on.set()
    yield
    assert made.close(60)
    assert sum(store.freed) == len(events) + 1 == sum(map(len, store.statements))


@pytest.mark.usefixtures("_time_is_the_processors")
def test_what_is_judged_quickly_is_stored_before_what_is_costly(store: Store) -> None:
    """Of three hostile sites, each step reads an answer or two; it never loses, or holds up, those of others."""
    slow = [hostile(site, 10 * site + number) for number in range(4) for site in (1, 2, 3)]
    honest = [of_site(site, 100 * site + number) for number in range(20) for site in (4, 5)]
    with writing(store, [*slow, *honest]):
        pass
    their_ids = {event.job.fetch_id for event in slow}
    in_each = [len(their_ids.intersection(ids)) for ids in store.ids]
    assert max(in_each) <= 2
    last_honest = max(place for place, ids in enumerate(store.ids) if set(ids) - their_ids)
    assert sum(in_each[: last_honest + 1]) <= 4  # of twelve
    outcomes = {outcome.fetch_id: outcome for outcomes in store.statements for outcome in outcomes}
    assert {outcomes[event.job.fetch_id].state for event in honest} == {FetchState.DONE}
    assert {outcomes[number].state for number in their_ids} == {FetchState.FAILED}
    assert "to decompress" in outcomes[10].error


def test_many_sites_whose_answers_are_costly_hold_up_no_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is within a first try, all together are not: the longer a step, the shorter are first tries.

    To decompress 64 KB takes a tenth of a millisecond here, on whatever machine: 8 ms for each of their answers.
    """
    now = [0.0]

    def worked() -> float:
        now[0] += 0.0001
        return now[0]

    monkeypatch.setattr(decoding, "time", SimpleNamespace(thread_time=worked))
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: now[0]))
    monkeypatch.setattr(costly, "PATIENCE_S", 60.0)
    large = gzip.compress(bytes(CAP), mtime=0)
    heavy = [of_site(site, site, large) for site in range(1, 100)]
    honest = [of_site(site, site) for site in range(1_000, 1_050)]
    with writing(store, [*heavy, *honest]):
        pass
    before_last = store.ids[: max(place for place, ids in enumerate(store.ids) if max(ids) >= 1_000)]
    assert sum(0 < number < 1_000 for ids in before_last for number in ids) < 30
    assert {outcome.state for outcomes in store.statements for outcome in outcomes} == {FetchState.DONE}


def test_a_step_ends_by_time_whatever_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event takes 20 ms here, and 100 of them wait: a statement has those of a PERIOD."""
    now = [0.0]

    def slow(event: Event, **options: object) -> FetchOutcome:
        now[0] += 0.02
        return judge(event, **options)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(writer, "judge", slow)
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: 0.0))
    turns: list[float] = []
    monkeypatch.setattr(writer, "take_turn", lambda: turns.append(now[0]))
    with writing(store, [of_site(1, 1 + number) for number in range(100)]):
        pass
    assert max(map(len, store.statements)) <= 6
    assert max(later - before for before, later in pairwise(turns)) < 0.03  # a turn for each event


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (of_site(1, 1), 1_000),
        (answer(200, *(("X", b"\xe9" * 64_000),) * 4), 17),  # two bytes each, as they are stored
        (answer(200, body=bytes(2**20)), 9),
        (replace(of_site(1, 1, b"a: b\n" * 8_000, b""), job=replace(job(), is_robots=True)), 4),
    ],
    ids=["small", "headers", "bodies", "robots.txt"],
)
def test_a_statement_holds_so_many_outcomes_and_bytes(
    event: Answer, most: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what is stored: bodies, headers, and what parsing a robots.txt will cost."""
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: 0.0, thread_time=lambda: 0.0))
    events = [replace(event, job=replace(event.job, fetch_id=number)) for number in range(1, 2 * most + 3)]
    with writing(store, list(events)):
        pass
    assert max(map(len, store.statements)) in range(most - 2, most + 1)


# --- costly answers ---------------------------------------------------------------------------------------------------


def popped(waiting: CostlyAnswers, count: int) -> list[int]:
    return [waiting.pop().answer.job.fetch_id for _ in range(count)]


def test_sites_take_turns() -> None:
    """One that sends much waits for itself."""
    waiting = CostlyAnswers()
    for site, fetch in ((1, 11), (1, 12), (1, 13), (2, 21), (1, 14), (2, 22), (3, 31)):
        waiting.add(hostile(site, fetch))
    assert popped(waiting, 7) == [11, 21, 31, 12, 22, 13, 14]
    assert not waiting


def test_what_waits_while_others_take_too_long_is_overdue() -> None:
    """It is counted in work: while PostgreSQL is away, nothing becomes overdue."""
    waiting = CostlyAnswers()
    for fetch in range(3):
        waiting.add(hostile(fetch, fetch))
    assert not waiting.pop().is_overdue
    waiting.note_work(read_s=costly.PATIENCE_S - 1.0)
    waiting.note_work(stored_s=60.0)  # PostgreSQL was away: a second of it counts
    assert not waiting.pop().is_overdue
    waiting.note_work(read_s=0.1)
    waiting.add(hostile(9, 9))
    assert [waiting.pop().is_overdue for _ in range(2)] == [True, False]


def test_so_many_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that, the newest of the site that has most is given up; it comes first, as it costs nothing."""
    monkeypatch.setattr(costly, "MOST_WAITING", 4)
    waiting = CostlyAnswers()
    for site, fetch in ((1, 11), (1, 12), (1, 13), (2, 21), (3, 31), (1, 14)):
        waiting.add(hostile(site, fetch))
    found = [waiting.pop() for _ in range(6)]
    assert [(each.answer.job.fetch_id, each.is_overdue) for each in found] == [
        (13, True), (14, True), (11, False), (21, False), (31, False), (12, False),
    ]  # fmt: skip
    assert not waiting


def test_the_answers_of_a_site_wait_from_its_first_costly_one_on_for_a_while() -> None:
    """Those that are not packed cost nothing, and do not wait. So many sites are remembered."""
    waiting = CostlyAnswers()
    waiting.note_costly(1, now_s=100.0)
    plain = answer(200, to=replace(job(), site_id=1))
    for event, now_s, waits in [
        (of_site(1, 1), 100.0, True),
        (of_site(1, 1), 159.0, True),
        (of_site(1, 1), 161.0, False),
        (of_site(2, 1), 100.0, False),
        (plain, 100.0, False),
        (of_site(1, 1, b""), 100.0, False),
    ]:
        assert waiting.concerns(event, now_s) is waits
    for site in range(2, costly.MOST_REMEMBERED + 2):
        waiting.note_costly(site, now_s=100.0)
    assert not waiting.concerns(of_site(1, 1), 100.0)
    assert waiting.concerns(of_site(2, 1), 100.0)


@pytest.mark.usefixtures("_time_is_the_processors")
def test_an_overdue_answer_is_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is read: its lease would run out, and its attempt be lost with all that it had cost."""
    monkeypatch.setattr(costly, "PATIENCE_S", 0.0)
    with writing(store, [hostile(site, site) for site in (1, 2, 3)]):
        pass
    became = {outcome.fetch_id: outcome for outcomes in store.statements for outcome in outcomes}
    assert [(became[number].state, became[number].error) for number in (2, 3)] == [(FetchState.QUEUED, UNREAD)] * 2
    assert became[1].state == FetchState.FAILED
