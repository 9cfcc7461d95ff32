"""Asks one check after the other. A check that fails or hangs does not end or hang the command.

1. A check is not asked if something that it needs does not work.
2. A thread asks the other checks, over its own connection to PostgreSQL. If a check has no answer within its time
   limit, the runner abandons the check and its thread, and a new thread asks the next check.
3. An error becomes a finding, with the sentence with which the error would have ended another command.
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
    """Ask all checks in their order, and yield the findings of each."""
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
        """Return the verdicts of the check, or the error that it raised; None if it took too long.

        After None this thread cannot be used any more: the check may never end.
        """
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
