"""Costly answers: those that wait until what is judged quickly has been stored.

Which they are shows when one of them is read: it takes longer than a first try may. From then on, all answers of its
site that have to be decompressed come here, until none of them has been costly for a while. Sites take turns. What has
waited while others took PATIENCE_S of work is overdue: it is no longer worth reading, as its lease runs out.

In the writer's thread only.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from workers.fetches.fetcher.results.contents import is_packed
from workers.fetches.jobs import Answer, Event

REMEMBERED_S: Final = 60.0  # for which a site that has sent a costly answer counts as costly
MOST_REMEMBERED: Final = 10_000  # sites
PATIENCE_S: Final = 3.0  # of work; a lease leaves 10 seconds for storing (claim.py), of which others take a part


class Waiting(NamedTuple):
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
        self._waiting: dict[int, deque[Waiting]] = {}  # in the order of their turns
        self._costly_until: dict[int, float] = {}
        self._worked_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def concerns(self, event: Event, now_s: float) -> bool:
        """Tell whether the event is one that is to wait here, before anything of it is read."""
        if not isinstance(event, Answer) or self._costly_until.get(event.job.site_id, 0.0) < now_s:
            return False
        return is_packed(event)

    def add(self, answer: Answer) -> None:
        """Have the answer wait."""
        self._waiting.setdefault(answer.job.site_id, deque()).append(Waiting(answer, self._worked_s))

    def note_costly(self, site_id: int, now_s: float) -> None:
        """Note that an answer of this site has been costly."""
        self._costly_until.pop(site_id, None)
        self._costly_until[site_id] = now_s + REMEMBERED_S
        if len(self._costly_until) > MOST_REMEMBERED:
            del self._costly_until[next(iter(self._costly_until))]

    def pop(self) -> Next:
        """Return the answer whose turn it is; its site has the next turn after all others. Raises StopIteration."""
        site_id = next(iter(self._waiting))
        of_site = self._waiting.pop(site_id)
        waiting = of_site.popleft()
        if of_site:
            self._waiting[site_id] = of_site
        return Next(answer=waiting.answer, is_overdue=self._worked_s - waiting.since_s > PATIENCE_S)

    def note_work(self, took_s: float) -> None:
        """Note how long reading one of them took."""
        self._worked_s += took_s
