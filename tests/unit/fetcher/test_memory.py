"""The bytes of answers that a fetcher holds: never more than it may, and no site has all of them."""

import pytest
from pytest_django import Settings

from weir.workers.fetches.fetcher.room import memory
from weir.workers.fetches.fetcher.room.memory import FULL_FROM, AnswerMemory, Memory
from weir.workers.fetches.fetcher.wire.answers import AnswerReader
from weir.workers.fetches.jobs import HeldBytes


@pytest.fixture(autouse=True)
def hundred_bytes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR_FETCH_MAX_MEMORY = 100
    monkeypatch.setattr(memory, "SMALL", 10)


class Answers:
    """Answers that ask for bytes, and which of them were granted these, in that order."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.granted: list[str] = []

    def ask(self, name: str, site: int, size: int, had: int = 0) -> HeldBytes:
        """Let an answer, which has so many bytes, ask for more of them."""
        held = HeldBytes(site_id=site)
        self.memory.hold(held, had)
        if self.memory.ask(held, size, lambda: self.granted.append(name)):
            self.granted.append(name)
        return held


def test_answers_wait_for_their_turn_while_all_bytes_are_held() -> None:
    """A small one does not overtake a large one, which would wait for ever; nothing new is asked for meanwhile."""
    answers = Answers()
    first, second = answers.ask("first", 0, 60), answers.ask("second", 1, 30)
    large, small = answers.ask("large", 2, 40), answers.ask("small", 3, 5)
    assert (answers.granted, not answers.memory.has_room_for(0)) == (["first", "second"], True)
    answers.memory.free([second])
    assert answers.granted == ["first", "second", "large"]
    assert not answers.memory.has_room_for(0), "the small one waits"
    answers.memory.hold(first, 50)
    answers.memory.free([])
    assert answers.granted == ["first", "second", "large", "small"]
    answers.memory.free([large, small])
    for size, has_room in ((50, False), (49, True)):  # FULL_FROM, and less
        answers.memory.hold(first, size)
        assert answers.memory.has_room_for(0) is has_room


def test_a_site_of_small_answers_is_not_stopped_by_the_large_ones_of_others() -> None:
    """Some of its own may wait for the writer, which is busy with the large ones."""
    answers = Answers()
    answers.ask("large", 1, 90)
    small = [HeldBytes(site_id=2) for _ in range(3)]
    for held in small:
        assert answers.memory.has_room_for(2)
        answers.memory.hold(held, 3)
    assert answers.memory.has_room_for(2)
    answers.memory.hold(small[0], 4)
    assert not answers.memory.has_room_for(2), "it holds SMALL bytes"
    answers.memory.free(small)
    assert answers.memory.has_room_for(2)
    assert not answers.memory.has_room_for(1)


def test_a_site_has_a_quarter_and_lets_others_pass() -> None:
    """One answer it may have always, however large."""
    answers = Answers()
    large = answers.ask("large", 1, 60)
    answers.ask("again", 1, 5)
    answers.ask("other", 2, 20)
    assert (answers.granted, not answers.memory.has_room_for(0)) == (["large", "other"], False)
    answers.memory.free([large])
    assert answers.granted == ["large", "other", "again"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_site_whose_answers_stand_still_leaves_others_their_part(newest_first: bool, settings: Settings) -> None:
    """What waits for the site's quarter keeps what it has: each could bring a little more, one after the other."""
    settings.WEIR_FETCH_MAX_MEMORY = 10_000
    answers = Answers()
    memory = answers.memory
    asked = [HeldBytes(site_id=1) for _ in range(60)]
    for held in asked:
        memory.hold(held, 1)
    for held in reversed(asked) if newest_first else asked:
        while held.size < 400 and memory.ask(held, min(2 * held.size, 400), lambda: None):
            pass
        if held.wanted is None and memory._moving[1] > 2_100:  # the others stand still with as much
            memory.ask(held, 500, lambda: None)
    assert memory._of_site[1] < 10_000 * FULL_FROM, "requests to others are still written, whatever they hold"
    other = answers.ask("other", 2, 4_000)
    assert (answers.granted, memory._is_short) == (["other"], False)
    for held in [*asked, other]:
        memory.free([held])
    assert (memory._held, memory._all_moving, memory._moving, memory._of_site) == (0, 0, {}, {})


def test_an_answer_that_is_larger_than_everything_is_read_alone() -> None:
    """WEIR_FETCH_MAX_BODY may be larger than WEIR_FETCH_MAX_MEMORY."""
    answers = Answers()
    huge = answers.ask("huge", 1, 500)
    answers.ask("other", 2, 1)
    assert answers.granted == ["huge"]
    answers.memory.free([huge])
    answers.memory.free([huge])
    assert answers.granted == ["huge", "other"]


def test_an_answer_that_is_given_up_while_it_waits_holds_nothing() -> None:
    """Those behind it go on."""
    answers = Answers()
    first = answers.ask("first", 1, 80)
    given_up = answers.ask("given up", 2, 90, had=10)
    answers.ask("last", 3, 20)
    answers.memory.free([given_up])
    assert answers.granted == ["first", "last"]
    answers.memory.free([first])
    assert answers.memory.has_room_for(0)


def test_answers_that_all_wait_for_more_do_not_wait_for_each_other() -> None:
    """What has come of them holds all bytes: the first goes on, whatever is held, and then the next."""
    answers = Answers()
    asked = [answers.ask(str(number), number % 2, 40, had=30) for number in range(5)]
    assert answers.granted[:1] == ["0"]
    for turn in range(5):
        assert len(answers.granted) > turn
        answers.memory.free([asked[int(answers.granted[turn])]])
    assert sorted(answers.granted) == list("01234")
    assert answers.memory.has_room_for(0)


def test_one_answer_after_the_other_becomes_whole() -> None:
    """Beyond all bytes, no more than one answer grows: the others hold what they had when they began to wait."""
    answers, most, done = Answers(), 0, []
    all_of_them = [HeldBytes(site_id=number) for number in range(10)]

    def read_on(held: HeldBytes) -> None:
        """Let it grow as far as it may; a whole one is stored."""
        while held.size < 80:
            if not answers.memory.ask(held, 2 * held.size, lambda: going_on.append(held)):
                return
        done.append(held.site_id)
        answers.memory.free([held])

    going_on: list[HeldBytes] = []
    for held in all_of_them:
        answers.memory.hold(held, 10)
    for held in all_of_them:
        read_on(held)
    while going_on:
        most = max(most, answers.memory._held)
        read_on(going_on.pop(0))
    assert done == list(range(10))
    assert most <= 100 + 80


def test_what_waits_and_is_stored_before_it_is_granted_anything_counts_as_it_is() -> None:
    """A reset may end an answer while it waits: nothing is counted that nobody holds."""
    answers = Answers()
    first, waits = answers.ask("first", 1, 80), answers.ask("waits", 2, 60, had=20)
    answers.memory.hold(waits, 15)
    answers.memory.free([first])
    assert (answers.granted, waits.size) == (["first"], 15), "it is in no queue any more"
    answers.memory.free([waits])
    memory = answers.memory
    assert (memory._held, memory._all_moving, memory._moving, memory._waiting) == (0, 0, {}, [])


def test_a_site_that_holds_nothing_is_asked_while_others_hold_all() -> None:
    """Sites of large answers wait; those of small ones do not notice."""
    answers = Answers()
    answers.ask("large", 1, 100)
    assert (answers.memory.has_room_for(1), answers.memory.has_room_for(2)) == (False, True)


def test_an_answer_reserves_no_more_than_what_it_has_once_more(settings: Settings) -> None:
    """One that says little for long holds little, whatever it may come to."""
    settings.WEIR_FETCH_MAX_MEMORY = 2**20
    memory, reader = Memory(), AnswerReader(5 * 2**20)
    answer = AnswerMemory(memory, 1)
    reader.feed(memoryview(b"HTTP/1.1 200 OK\r\n\r\n"))
    for _ in range(100):
        reader.feed(memoryview(b"x" * 1_000))
        assert answer.may_go_on(reader, lambda: None)
        assert len(reader.body) <= memory._held <= max(2 * len(reader.body) + 500, 2**15)
    kept = answer.keep(reader.held())
    answer.drop()
    assert memory._held == reader.held()
    memory.free([kept])
    assert memory._held == 0
