"""Logs as operators have them: of mixed formats, rotated, packed, with lines that are cut and files missing."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.unit.mail.evidence.test_damage import LOST
from tests.unit.mail.evidence.test_formats import FORMATS, PACKED, STRANGE_BY_THEMSELVES, nanoseconds

# These name another host than the other formats do, or none; or a line has several parts, and it cannot be seen that
# one was cut.
UNFIT = {"no host", "a host that is an address", "Kubernetes, in parts", *STRANGE_BY_THEMSELVES}
UNFIT |= {form for form in FORMATS if "compose" in form or "kubectl" in form or "of a container" in form}
FIT = [form for form in FORMATS if form not in UNFIT]
SINGLE = [form for form in PACKED if form != "tar"]  # the packed file has the times of the file itself
MOST_FILES = 5
_SYSLOG = re.compile(r"(?P<stamp>\w{3} [ \d]\d \d\d:\d\d:\d\d) \S+ (?P<program>[^\s\[]+)\[(?P<pid>\d+)\]: (?P<text>.*)")
_MAINLOG = re.compile(r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a server, without what its logger adds."""

    moment: datetime
    program: str
    pid: int
    text: str


def of_postfix(log: bytes, year: int) -> list[Said]:
    """Return the lines of a Postfix's log."""
    found = [_SYSLOG.fullmatch(line) for line in log.decode().splitlines()]
    return [
        Said(
            datetime.strptime(f"{year} {line['stamp']}", "%Y %b %d %H:%M:%S").astimezone(UTC),
            line["program"],
            int(line["pid"]),
            line["text"],
        )
        for line in found
        if line
    ]


def of_exim(log: bytes) -> list[Said]:
    """Return the lines of an Exim's mainlog, which is in UTC."""
    found = [_MAINLOG.fullmatch(line) for line in log.decode().splitlines()]
    return [
        Said(datetime.fromisoformat(line["stamp"]).replace(tzinfo=UTC), "exim", 77, line["text"])
        for line in found
        if line
    ]


class Damage:
    """Writes a host's log, damaged, to a folder of its own; the seed decides what chance does."""

    def __init__(self, folder: Path, chance: Random, *, harmless: bool = False) -> None:
        self._folder, self._chance, self._harmless = folder, chance, harmless

    def write(self, host: str, said: Sequence[Said]) -> list[str]:
        """Return the names of the files."""
        place = self._folder / host
        place.mkdir(parents=True)
        marks = sorted(self._chance.sample(range(1, len(said)), self._chance.randrange(MOST_FILES)))
        pieces = [said[begin:end] for begin, end in zip([0, *marks], [*marks, len(said)], strict=True)]
        written = self._as_mainlog if said[0].program == "exim" and self._chance.random() < 0.5 else None
        missing = self._chance.randrange(len(pieces)) if self._happens(0.3) and len(pieces) > 1 else -1
        names = []
        for number, piece in enumerate(pieces):
            if number != missing:
                age = len(pieces) - 1 - number
                path = place / ("mail.log" if not age else f"mail.log.{age}")
                path.write_bytes(self._packed(self._lines(host, piece, written)))
                changed = piece[-1].moment.timestamp()
                os.utime(path, (changed, changed))
                names.append(str(path))
        self._chance.shuffle(names)
        return names

    def _lines(self, host: str, said: Sequence[Said], written: Callable[..., str] | None) -> list[str]:
        form = written or FORMATS[self._chance.choice(FIT)]
        lines = [form(each.moment, host, each.program, each.pid, each.text) for each in said]
        if self._happens(0.6):
            for _ in range(self._chance.randint(1, 5)):
                at = self._chance.randrange(len(lines))
                following = lines[at + 1] if at + 1 < len(lines) else ""
                cut = LOST[self._chance.choice([*LOST])]
                lines[at] = cut(lines[at], self._chance.randrange(1, max(len(lines[at]), 2)), following)
        return lines

    def _packed(self, lines: Sequence[str]) -> bytes:
        content = ("\n".join(lines) + "\n").encode()
        packed = PACKED[self._chance.choice(SINGLE)](content)
        if not self._happens(0.1):
            return packed
        # If a file is cut off right behind a line, it cannot be seen that more of it is missing.
        return packed[: self._chance.randrange(len(packed))].rstrip(b"\r\n\0")

    def _as_mainlog(self, moment: datetime, _host: str, _program: str, _pid: int, text: str) -> str:
        line = f"{moment:%Y-%m-%d %H:%M:%S} {text}"
        return line if self._chance.random() < 0.5 else f"{nanoseconds(moment)} {line}"

    def _happens(self, probability: float) -> bool:
        return not self._harmless and self._chance.random() < probability
