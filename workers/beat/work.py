"""What there is to do for a tick: beat asks before it sends one. To ask costs a tenth of a tick that finds nothing.

An app says of its ticks how to find out (`tell_by`): by a few index entries, or by one call to Redis. A tick for which
there is nothing is sent all the same every SENT_EVERY_S seconds, whatever was found. So what the question overlooks
comes late, and is not lost.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from weir.postgres import statements

SENT_EVERY_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Question:
    """Whether there is work for a tick."""

    has_work: Callable[[], bool]  # raises database errors
    sent_every_s: float


class Answer(NamedTuple):
    """What a statement says."""

    has_work: bool


_questions: dict[str, Question] = {}


def tell_by(task_name: str, has_work: Callable[[], bool], *, sent_every_s: float = SENT_EVERY_S) -> None:
    """Have `has_work` tell beat whether there is anything to do for this tick; called again, it replaces the first.

    It may say yes where there is nothing, and never no where a tick has to come in time. It raises database errors.
    """
    _questions[task_name] = Question(has_work=has_work, sent_every_s=sent_every_s)


def tell_by_statement(task_name: str, package: str, name: str) -> None:
    """Have the statement `work/<name>` of the package tell it, as `tell_by` says."""

    def has_work() -> bool:
        [answer] = statements.run_within(package, f"work/{name}", {}, row=Answer, prepare=True)
        return answer.has_work

    tell_by(task_name, has_work)


@dataclass(kw_only=True, slots=True)
class Asked:
    """What one beat has sent, by the names of its entries. A beat that takes the lease begins with all of them."""

    _sent_at: dict[str, float] = field(default_factory=dict)  # of time.monotonic()

    def is_idle(self, entry: str, task_name: str) -> bool:
        """Tell whether there is nothing to do for this tick, and one was sent lately. Raises database errors."""
        question = _questions.get(task_name)
        sent_at = self._sent_at.get(entry)
        if question is None or sent_at is None or time.monotonic() >= sent_at + question.sent_every_s:
            return False
        return not question.has_work()

    def note(self, entry: str) -> None:
        """Note that the entry's tick is sent."""
        self._sent_at[entry] = time.monotonic()

    def forget(self) -> None:
        """Have each tick be sent once, whatever there is to do: another beat has had the lease."""
        self._sent_at.clear()
