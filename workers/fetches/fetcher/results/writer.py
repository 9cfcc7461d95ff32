"""The writer: a thread that judges the events of the loop and stores them, so that the loop never waits for PostgreSQL.

In each turn,
1. it judges the events that have come, and so decides what becomes of each fetch (outcomes.py). This decompresses
   bodies, which the loop must not do, either. The step ends after a PERIOD, or when the outcomes fill one statement.
2. It stores these outcomes in one statement, however long PostgreSQL is away (store.py), and frees the fetcher's room.
3. It reads some of the answers that are costly to read (costly.py), at least one, and stores their outcomes.
4. It reads and stores some of the suspects, at least one: answers to fetches that were lost with two fetchers. Before
   it reads one, it records in PostgreSQL that it has this fetch alone in hand: if the fetcher dies of the answer, other
   fetches are not blamed (outcomes.lost). If more suspects come than can be read one by one, the fetches of some go
   back to the queue before their leases are over, and their answers are not read.

Large bodies go to a storage, if there is one. That may take long, so other threads bring them there (keeper.py), and
give their outcomes back as events.

A fetcher that stops leaves the writer some time. The fetches of answers that are still not read then go back to the
queue: otherwise they would be lost with the process, as if it had died of them.

So no step is longer than a PERIOD and one answer, however many answers wait. Judged outcomes are stored before a costly
answer or a suspect is read. Such an answer delays the others for one step at most, because its budget is limited
(decoding.py).
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from random import random
from typing import Final

from django.db import connection

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.ratelimit import clock
from weir.workers.fetches.addresses import allowed_by_settings
from weir.workers.fetches.fetcher.parts import TURN_S, FetcherPart, database_patience_s, take_turn
from weir.workers.fetches.fetcher.results import fetch_spans
from weir.workers.fetches.fetcher.results.contents import FIRST_S, HURRIED_S, ForStorage, OverBudget
from weir.workers.fetches.fetcher.results.costly import CostlyAnswers
from weir.workers.fetches.fetcher.results.decoding import Decoded
from weir.workers.fetches.fetcher.results.keeper import Keeper, Kept, is_large, stored_from
from weir.workers.fetches.fetcher.results.outcomes import judge, unjudged, unread
from weir.workers.fetches.fetcher.results.store import store_surely, take_in_hand
from weir.workers.fetches.fetcher.results.token_outcomes import settled
from weir.workers.fetches.jobs import STORING, Answer, Event, FetchOutcome, HeldBytes, Snoozed, longest_answer_s
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.once import settling as once

log = get_logger(__name__)

PERIOD = 0.1  # seconds for which a result waits for others, to be stored together
MOST_OUTCOMES: Final = 1_000  # in one statement
MOST_BYTES = 8 * 2**20  # in one statement; Python and psycopg make several copies of it
# Seconds of processor time for usual first tries, in each PERIOD of processor time. A PERIOD may have many steps: large
# bodies fill a statement early, which ends a step. Further first tries are short, so that the bodies of many sites do
# not delay others.
FIRST_TRIES_S: Final = 0.02
# A fetch that was lost so often is a suspect. One loss is not enough: it happens to all fetches of a killed fetcher.
SUSPECT_LOSSES: Final = 2
GIVING_BACK_S = 2.0  # seconds for which a late stop waits until the fetches of unread answers have gone back
# A robots.txt is parsed when it is stored, which takes a tenth of a second at worst (robots/rules.py). So each of its
# bytes counts as many: four files of 40 KB fill a statement.
ROBOTS_WEIGHT: Final = 64


@dataclass(kw_only=True, slots=True)
class _Together:
    """Outcomes that are to be stored together."""

    outcomes: list[FetchOutcome] = field(default_factory=list)
    all_held: list[HeldBytes] = field(default_factory=list)
    size: int = 0

    def add(self, event: Event, outcome: FetchOutcome) -> None:
        outcome = once.settled(outcome, event)
        self.outcomes.append(outcome)
        self.size += _size(outcome) * (ROBOTS_WEIGHT if event.job.is_robots else 1)
        if isinstance(event, Answer):
            self.all_held += event.all_held
        fetch_spans.record(event, outcome)

    def is_full(self) -> bool:
        return len(self.outcomes) >= MOST_OUTCOMES or self.size >= MOST_BYTES


class Writer:
    """The writer of one fetcher. It calls `stored`, in its thread, with the number of events stored, and their memory.

    The thread keeps its connection: a new one costs more than storing a hundred results.
    """

    def __init__(self, stored: Callable[[int, list[HeldBytes]], None]) -> None:
        self._events: SimpleQueue[Event | Kept | None] = SimpleQueue()
        self._costly = CostlyAnswers()
        self._first_tries_until = self._counted_until = 0.0  # on the clock of time.thread_time()
        self._suspects: deque[Answer] = deque()
        self._keeper = Keeper(_outcome_of_large, self._events.put)
        self._closes = False
        self._is_late = False  # if so, the writer reads no more answers
        self._stored = stored
        self.part = FetcherPart("writer", self._work, patience_s=database_patience_s())

    def put(self, event: Event) -> None:
        """Hand over an event; never blocks."""
        self._events.put(event)

    def close(self, timeout: float) -> bool:
        """Store what is left, and end; give back the fetches whose answers are not read within `timeout` seconds.

        Returns False if giving them back takes longer than GIVING_BACK_S: PostgreSQL is away.
        """
        self._events.put(None)
        if self.part.join(timeout):
            return True
        self._is_late = True
        return self.part.join(GIVING_BACK_S)

    def _work(self) -> None:
        while not self._closes or self._costly or self._suspects or self._keeper:
            self._store(self._judge_what_came())
            if self._is_late:
                self._store(self._give_back())
                continue
            self._store(self._give_back_overdue())
            costly = self._judge_costly()
            began_at = time.monotonic()
            self._store(costly)
            self._costly.note_work(stored_s=time.monotonic() - began_at)
            self._store_suspects()
        connection.close()

    def _store(self, judged: _Together) -> None:
        take_turn()
        if judged.outcomes:
            store_surely(judged.outcomes)
            self._stored(len(judged.outcomes), judged.all_held)

    def _store_suspects(self) -> None:
        """Judge and store suspects, one after the other, for about one PERIOD: one, and more while there is time."""
        until = time.monotonic() + PERIOD
        while self._suspects:
            answer, judged = self._suspects.popleft(), _Together()
            if take_in_hand(fetch_id=answer.job.fetch_id, slot_id=answer.job.slot_id):
                self._judge(answer, judged, None)
                self._store(judged)
            elif answer.job.effect is not None:  # sweep has the fetch, and the effect is known to have happened
                judged.add(answer, _given_back(answer))
                self._store(judged)
            else:
                self._stored(1, answer.all_held)
            if time.monotonic() >= until or self._is_late:
                break

    def _give_back(self) -> _Together:
        """Give back the fetches of answers that wait to be read: no attempt is counted, and none is lost with us."""
        judged = _Together()
        for answer in self._keeper.abandon():
            judged.add(answer, _given_back(answer))
        while (self._suspects or self._costly) and not judged.is_full():
            answer = self._suspects.popleft() if self._suspects else self._costly.pop().answer
            judged.add(answer, _given_back(answer))
        return judged

    def _give_back_overdue(self) -> _Together:
        """Give back suspects whose leases would run out before their turn: that would count as another loss."""
        judged, kept = _Together(), deque[Answer]()
        begun_by = clock.now() - longest_answer_s() - STORING / 2
        for answer in self._suspects:
            if answer.job.run.start_until < begun_by and not judged.is_full():
                judged.add(answer, unread(answer.job, random()))  # noqa: S311  jitter
            else:
                kept.append(answer)
        self._suspects = kept
        return judged

    def _judge_what_came(self) -> _Together:
        """Judge what comes in about one PERIOD; do not wait for events if costly answers or suspects wait."""
        judged = _Together()
        until, worked = None, time.thread_time()
        if worked >= self._counted_until:
            self._first_tries_until, self._counted_until = worked + FIRST_TRIES_S, worked + PERIOD
        while not judged.is_full() and (not self._closes or (self._keeper and not self._is_late)):
            take_turn()
            now = time.monotonic()
            if until is not None and now >= until:
                break
            patience_s = TURN_S if until is None else until - now
            try:
                event = self._events.get(timeout=0 if self._costly or self._suspects else patience_s)
            except Empty:
                break
            until = until or time.monotonic() + PERIOD
            if event is None:
                self._closes = True
            elif isinstance(event, Kept):
                if self._keeper.take(event):
                    judged.add(event.answer, event.outcome)
            else:
                left_s = self._first_tries_until - time.thread_time()
                self._judge_first(event, judged, budget_s=max(HURRIED_S, min(FIRST_S, left_s)))
        return judged

    def _judge_first(self, event: Event, judged: _Together, *, budget_s: float) -> None:
        """Judge an event. Suspects, and answers that are costly to read, wait for their turn instead.

        Once the writer is late, it reads no answers: their fetches go back.
        """
        if isinstance(event, Answer) and self._is_late:
            judged.add(event, _given_back(event))
            return
        if isinstance(event, Answer) and event.job.losses >= SUSPECT_LOSSES:
            self._suspects.append(event)
            return
        now = time.monotonic()
        if isinstance(event, Answer) and not is_large(event) and self._costly.concerns(event, now):
            self._costly.add(event)
            return
        try:
            self._judge(event, judged, budget_s)
        except OverBudget:
            if not isinstance(event, Answer):
                raise
            self._costly.note_costly(event.job.site_id, now)
            self._costly.add(event)

    def _judge(self, event: Event, judged: _Together, budget_s: float | None) -> None:
        """Judge an event, unless its body is for the keeper. Raises OverBudget."""
        try:
            outcome = None if is_large(event) else outcome_of(event, budget_s)
        except ForStorage:
            outcome = None
        if outcome is not None:
            judged.add(event, outcome)
        elif isinstance(event, Answer):
            self._keeper.put(event)

    def _judge_costly(self) -> _Together:
        """Read costly answers for about one PERIOD: one, and more of them while there is time."""
        judged = _Together()
        until = time.monotonic() + PERIOD
        while self._costly and not judged.is_full() and not self._is_late:
            take_turn()
            waited = self._costly.pop()
            began_at, worked_s = time.monotonic(), time.thread_time()
            self._judge(waited.answer, judged, 0.0 if waited.is_overdue else None)
            self._costly.note_work(read_s=time.monotonic() - began_at)
            if time.thread_time() - worked_s > HURRIED_S:
                self._costly.note_costly(waited.answer.job.site_id, began_at)
            if time.monotonic() >= until:
                break
        return judged


def _given_back(answer: Answer) -> FetchOutcome:
    if answer.job.effect is not None:  # its request is not made again, so its status is what is known
        return FetchOutcome(
            fetch_id=answer.job.fetch_id,
            slot_id=answer.job.slot_id,
            state=FetchState.QUEUED,
            error="the fetcher stopped before the answer was read",
            correlation_id=answer.job.correlation_id,
        )
    return outcome_of(Snoozed(job=answer.job, slot_used=True), None)


def _size(outcome: FetchOutcome) -> int:
    """Return how many bytes of the statement the outcome takes, about: its body decompressed, its texts in UTF-8."""
    texts = (outcome.headers, outcome.error, outcome.incomplete, outcome.hop_url, outcome.etag, outcome.last_modified)
    return len(outcome.content or b"") + sum(len(text.encode(errors="replace")) for text in texts if text)


def _outcome_of_large(answer: Answer, found: Decoded) -> FetchOutcome:
    return outcome_of(answer, found=found)


def outcome_of(event: Event, budget_s: float | None = None, *, found: Decoded | None = None) -> FetchOutcome:
    """Judge an event; an unexpected error fails this one fetch, not the writer. Raises OverBudget and ForStorage."""
    try:
        outcome = judge(
            event,
            max_body=event.job.most_body,
            chance=random(),  # noqa: S311  jitter
            allowed=allowed_by_settings(),
            longest_wait_s=settings.WEIR_RETRY_AFTER_MAX,
            keep=settings.WEIR_FETCH_KEEP_INCOMPLETE,
            budget_s=budget_s,
            stored_from=stored_from(event),
            found=found,
        )
        return once.settled(settled(outcome, event, settings.WEIR_RETRY_AFTER_MAX), event)
    except (ForStorage, OverBudget):
        raise
    except Exception as error:
        log.exception("event_not_judged", **event.job.named)
        return unjudged(event.job, error, random())  # noqa: S311  jitter
