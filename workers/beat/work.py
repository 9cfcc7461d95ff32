"""Whether a tick would find anything to do. Beat asks before it sends a tick.

The question costs a tenth of a tick that finds nothing to do. An app declares the question for each of its ticks
(`ask_before`): a statement that reads a few index entries, or a call to Redis. After SENT_EVERY_S seconds without a
tick, beat sends the tick whatever the answer is. So work that the question overlooks is done late, but is not lost.
A tick that a version has newly is sent only where there is something to do: during an upgrade, a worker of the version
before does not know it.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from django.db import ProgrammingError

from weir.postgres.statements import Statement

SENT_EVERY_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question before a tick, and the seconds after which beat sends the tick whatever the answer is."""

    has_work: Callable[[], bool]  # raises database errors
    sent_every_s: float  # infinite: never


_questions: dict[str, Question] = {}  # by task name; apps write it while they are loaded, beat reads it


def ask_before(task_name: str, has_work: Callable[[], bool], *, sent_every_s: float = SENT_EVERY_S) -> None:
    """Make beat ask `has_work` before it sends this tick; a later call for the same tick replaces the question.

    Beat calls `has_work` in its own thread, each time the tick is due. It may return True although there is nothing to
    do, but must not return False if work has to be done in time. It may only raise database errors: beat then gives up
    its lease, and the tick is still due.
    """
    _questions[task_name] = Question(has_work=has_work, sent_every_s=sent_every_s)


def answer_of(statement: Statement[bool]) -> Callable[[], bool]:
    """Return a function for `ask_before` that executes this statement and returns its answer."""

    def has_work() -> bool:
        [answer] = statement()
        return answer

    return has_work


@dataclass(kw_only=True, slots=True)
class SentTicks:
    """When a beat has last sent each tick, by the name of its entry. Not thread-safe: a beat has one thread."""

    _sent_at: dict[str, float] = field(default_factory=dict)  # of time.monotonic()

    def is_needless(self, entry: str, task_name: str) -> bool:
        """Return whether this tick was sent lately, and would find nothing to do now.

        Raises database errors, except for a statement that this database cannot execute, for example before `migrate`.
        """
        question = _questions.get(task_name)
        sent_at = self._sent_at.get(entry)
        if question is None:
            return False
        is_asked_first = question.sent_every_s == math.inf
        if not is_asked_first and (sent_at is None or time.monotonic() >= sent_at + question.sent_every_s):
            return False
        try:
            return not question.has_work()
        except ProgrammingError:  # a table or a right is missing: the tick will log that, and other ticks go on
            return False

    def note(self, entry: str) -> None:
        """Record that the entry's tick is sent."""
        self._sent_at[entry] = time.monotonic()

    def forget(self) -> None:
        """Forget all ticks, so that each is sent once, whatever the answers are: another beat has had the lease."""
        self._sent_at.clear()
