"""Asks one check after the other. None of them can end or hang the command, whatever it meets.

1. A check whose needs do not work is not asked.
2. A thread asks the others, over a connection to PostgreSQL of its own. A check without an answer within its time limit
   is left behind with its thread, and another thread goes on with the next.
3. An error becomes a finding: the sentence that a command would have ended with.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue

import psycopg
from django.db import connections

from project import errors
from project.celery import app
from project.doctor.findings import Check, Finding, Level, Theme, Verdict, not_checked
from project.environment import redacting

Answer = Verdict | Sequence[Verdict] | Exception
_WORKS = {Level.GOOD, Level.WARNING}


def findings(themes: Sequence[Theme]) -> Iterator[Finding]:
    """Ask all checks, and yield what each finds, in their order."""
    asker, works = _Asker(), set[str]()
    verdicts: Sequence[Verdict]
    for theme in themes:
        for check in theme.checks:
            missing = [need for need in check.needs if need not in works]
            if missing:
                verdicts = [not_checked(f"It needs {missing[0]}.")]
            elif (answer := asker.answer(check)) is None:
                asker = _Asker()
                verdicts = [Verdict(check.at_worst, f"There was no answer within {check.within_s:g} s.")]
            else:
                verdicts = _verdicts(answer, check.at_worst)
            if check.provides and all(verdict.level in _WORKS for verdict in verdicts):
                works.add(check.provides)
            for level, sentence, name in verdicts:
                yield Finding(theme.title, name or check.name, level, redacting.without_secrets(sentence))
    asker.close()


class _Asker:
    """A thread that asks checks."""

    def __init__(self) -> None:
        self._questions: SimpleQueue[Callable[[], Verdict | Sequence[Verdict]] | None] = SimpleQueue()
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        threading.Thread(target=self._work, name="doctor", daemon=True).start()

    def answer(self, check: Check) -> Answer | None:
        """Return what the check says, or raises; None if it takes too long: this thread is lost then."""
        self._questions.put(check.ask)
        try:
            return self._answers.get(timeout=check.within_s)
        except Empty:
            return None

    def close(self) -> None:
        """Tell the thread to end."""
        self._questions.put(None)

    def _work(self) -> None:
        app.set_current()  # for this thread
        while question := self._questions.get():
            try:
                self._answers.put(question())
            except Exception as error:  # noqa: BLE001  each becomes a finding
                self._answers.put(error)
        connections.close_all()


def _verdicts(answer: Answer, at_worst: Level) -> Sequence[Verdict]:
    if isinstance(answer, Verdict):
        return [answer]
    if not isinstance(answer, Exception):
        return answer
    if isinstance(answer.__cause__, psycopg.errors.InsufficientPrivilege):
        return [not_checked(f"The role of DATABASE_URL may not look: {answer}")]
    unexpected = f"The check itself failed ({type(answer).__name__}: {answer}): please report that."
    return [Verdict(at_worst, errors.explain(answer) or unexpected)]
