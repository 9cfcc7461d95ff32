"""What a check finds, and what a check is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How serious a finding is. Only WRONG makes the command fail."""

    GOOD = "good"
    WARNING = "warning"
    WRONG = "wrong"
    NOT_CHECKED = "not checked"


class Verdict(NamedTuple):
    """The result of a check: one sentence, which names the remedy if there is a fault.

    A check with several results gives each a name of its own.
    """

    level: Level
    sentence: str
    name: str = ""


class Finding(NamedTuple):
    """A verdict, with the theme and the name of its check."""

    theme: str
    name: str
    level: Level
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """Asks one question.

    `needs` names what must work before the check is asked. `provides` names what works if no verdict of the check is
    WRONG or NOT_CHECKED. A check that has no answer after `within_s` seconds, or raises an error, becomes a finding of
    the level `at_worst`.
    """

    name: str
    ask: Callable[[], Verdict | Sequence[Verdict]]
    needs: tuple[str, ...] = ()
    provides: str = ""
    within_s: float = 2.0
    at_worst: Level = Level.WRONG


class Theme(NamedTuple):
    """A chapter of the report."""

    title: str
    checks: Sequence[Check]


def good(sentence: str) -> Verdict:
    """Return the verdict that nothing has to be mended."""
    return Verdict(Level.GOOD, sentence)


def warning(sentence: str) -> Verdict:
    """Return the verdict on something that works, but may surprise, or is not fit for production."""
    return Verdict(Level.WARNING, sentence)


def wrong(sentence: str) -> Verdict:
    """Return the verdict on something that has to be mended."""
    return Verdict(Level.WRONG, sentence)


def not_checked(sentence: str) -> Verdict:
    """Return the verdict that a check has no answer, with the reason, which is not a fault."""
    return Verdict(Level.NOT_CHECKED, sentence)
