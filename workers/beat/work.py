"""Whether a tick finds anything to do: beat asks before it sends one. That costs a tenth of a tick that finds nothing.

An app says what to ask before which of its ticks (`ask_before`): a statement that reads a few index entries, or a call
to Redis. Every SENT_EVERY_S seconds a tick is sent whatever the answer is. So work that the question overlooks is done
late, and is not lost.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from django.db import ProgrammingError

from weir.postgres.statements import Statement

SENT_EVERY_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked before a tick, and after how long without one the tick is sent whatever the answer is."""

    has_work: Callable[[], bool]  # raises database errors
    sent_every_s: float


_questions: dict[str, Question] = {}  # by the names of tasks; apps write it while they are loaded, beat reads it


def ask_before(task_name: str, has_work: Callable[[], bool], *, sent_every_s: float = SENT_EVERY_S) -> None:
    """Make beat ask `has_work` before it sends this tick; a later call for the same tick replaces the question.

    Beat asks in its own thread, each time the tick is due. The answer may be yes although there is nothing to do, but
    must never be no if a tick has to come in time. Only database errors may be raised: beat gives up its lease then,
    and the tick is still due.
    """
    _questions[task_name] = Question(has_work=has_work, sent_every_s=sent_every_s)


def answer_of(statement: Statement[bool]) -> Callable[[], bool]:
    """Return a question that executes this statement, which says whether there is work."""

    def has_work() -> bool:
        [answer] = statement()
        return answer

    return has_work


@dataclass(kw_only=True, slots=True)
class SentTicks:
    """When one beat has sent each tick last, by the name of its entry. Not thread-safe: a beat has one thread."""

    _sent_at: dict[str, float] = field(default_factory=dict)  # of time.monotonic()

    def is_needless(self, entry: str, task_name: str) -> bool:
        """Return whether this tick was sent lately, and would find nothing to do now.

        Raises database errors, except those of a statement that this database cannot run, as before `migrate`.
        """
        question = _questions.get(task_name)
        sent_at = self._sent_at.get(entry)
        if question is None or sent_at is None or time.monotonic() >= sent_at + question.sent_every_s:
            return False
        try:
            return not question.has_work()
        except ProgrammingError:  # a table is missing, or a right: the tick logs it, and others go on
            return False

    def note(self, entry: str) -> None:
        """Record that the entry's tick is sent."""
        self._sent_at[entry] = time.monotonic()

    def forget(self) -> None:
        """Forget all, so that each tick is sent once, whatever there is to do: another beat has had the lease."""
        self._sent_at.clear()
