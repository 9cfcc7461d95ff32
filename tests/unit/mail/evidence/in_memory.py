"""Logs that are read without a file: to write one anew takes longer than to read it."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from tests.unit.mail.evidence.test_verdicts import ATTEMPT, CHANGED, OURS
from weir.workers.mail.evidence import reading
from weir.workers.mail.evidence.formats import files
from weir.workers.mail.evidence.formats.files import LogFile
from weir.workers.mail.evidence.verdicts import LogVerdict, Vouched, judge


@dataclass(frozen=True, slots=True)
class Log(LogFile):
    """A log of one host, neither packed nor in another encoding."""

    content: bytes = b""

    def lines(self) -> Iterator[str]:
        return files._lines(io.BytesIO(self.content).readline, self.name, len(self.content))


def verdict_by(lines: Iterable[str], vouched: Vouched) -> LogVerdict:
    """Judge as `verdict(saved(folder, lines), vouched)` does."""
    content = ("\n".join(lines) + "\n").encode(errors="surrogateescape")
    log = Log("host0.log", Path(), CHANGED, "host0", content=content)
    return judge(ATTEMPT, reading.read([log], [OURS], UTC), vouched)
