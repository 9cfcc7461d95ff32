"""Costly answers: they wait until answers that are judged quickly have been stored.

An answer turns out to be costly when it is read: it takes longer than a first try may. From then on, all answers of its
site that have to be decompressed wait here, until none of them has been costly for a while. Sites take turns. An answer
that has waited while others took PATIENCE_S of work is overdue: it is no longer worth reading, because its lease runs
out. If more than MOST_WAITING answers wait, the newest answer of the site that has most is overdue, too, because
waiting answers take a part of the fetcher's room.

In the writer's thread only.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from weir.workers.fetches.fetcher.remembered import Remembered
from weir.workers.fetches.fetcher.results.contents import is_packed
from weir.workers.fetches.jobs import Answer, Event

REMEMBERED_S: Final = 60.0  # seconds for which a site that has sent a costly answer counts as costly
MOST_REMEMBERED: Final = 10_000  # sites
MOST_WAITING: Final = 500  # answers; a fetcher holds 5,000
LONGEST_STORE_S: Final = 1.0  # seconds of one storing that count as work, too; PostgreSQL's absence does not
PATIENCE_S: Final = 3.0  # seconds of work; a lease leaves 10 seconds for storing (jobs.STORING), shared with others


class WaitingAnswer(NamedTuple):
    """An answer that waits, and how much work had been done when it came."""

    answer: Answer
    since_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Next:
    """The answer whose turn it is."""

    answer: Answer
    is_overdue: bool


class CostlyAnswers:
    """The costly answers of one fetcher that wait, by site."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[WaitingAnswer]] = {}  # in the order of their turns
        self._overdue: deque[Answer] = deque()
        self._count = 0  # answers that wait and are not overdue
        self._costly_until: Remembered[int, float] = Remembered(MOST_REMEMBERED)
        self._worked_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._waiting or self._overdue)

    def concerns(self, event: Event, now_s: float) -> bool:
        """Return whether the event has to wait here, before any of its body is read."""
        if not isinstance(event, Answer) or self._costly_until.get(event.job.site_id, 0.0) < now_s:
            return False
        return is_packed(event)

    def add(self, answer: Answer) -> None:
        """Let the answer wait."""
        self._waiting.setdefault(answer.job.site_id, deque()).append(WaitingAnswer(answer, self._worked_s))
        self._count += 1
        if self._count > MOST_WAITING:
            most = max(self._waiting, key=lambda site_id: len(self._waiting[site_id]))
            self._overdue.append(self._taken(most, newest=True).answer)

    def note_costly(self, site_id: int, now_s: float) -> None:
        """Remember that an answer of this site has been costly."""
        self._costly_until.note(site_id, now_s + REMEMBERED_S)

    def pop(self) -> Next:
        """Return the answer whose turn it is; its site has the next turn after all others. Raises StopIteration."""
        if self._overdue:
            return Next(answer=self._overdue.popleft(), is_overdue=True)
        waiting = self._taken(next(iter(self._waiting)))
        return Next(answer=waiting.answer, is_overdue=self._worked_s - waiting.since_s > PATIENCE_S)

    def note_work(self, read_s: float = 0.0, stored_s: float = 0.0) -> None:
        """Record how long it took to read, or to store, some costly answers."""
        self._worked_s += read_s + min(stored_s, LONGEST_STORE_S)

    def _taken(self, site_id: int, *, newest: bool = False) -> WaitingAnswer:
        """Take out the site's oldest answer, which uses up its turn, or its newest, which does not."""
        of_site = self._waiting[site_id]
        waiting = of_site.pop() if newest else of_site.popleft()
        self._count -= 1
        if not (newest and of_site):
            del self._waiting[site_id]
        if of_site:
            self._waiting[site_id] = of_site
        return waiting
