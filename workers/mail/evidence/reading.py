"""Logs are read for what they say about Message-IDs of ours.

1. The first reading looks for the Message-IDs, notes with which queue ids they came in, and what each
   host's log covers.
2. The second one, if there are such queue ids, gathers the lines that have them.
3. The lines of a queue id are cut into lives: an id is given again when its e-mail is gone.

Two readings, as a queue id's other lines may stand in a file that is read earlier. Of the logs, only what concerns our
Message-IDs is kept; and one number for each minute in which a Message-ID was logged.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from workers.mail.evidence import exim, postfix
from workers.mail.evidence.coverage import Coverage
from workers.mail.evidence.files import LogFile
from workers.mail.evidence.lines import Clock, Line, take_apart
from workers.mail.evidence.signs import Said, Sign

SAMPLES = 3  # lines that were not understood are shown
LONGEST_PROOF = 500  # characters of a line that are kept
SHORTEST_MENTION = 16  # letters and digits: what is shorter may be part of many Message-IDs
_NOT_PLAIN = re.compile(r"[^a-z0-9]")
_LOSSES = re.compile(r"Suppressed \d+ messages|lost \d+ messages|begin to drop messages|messages? lost due to")
_ACCEPTED = frozenset({Sign.RECEIVED, Sign.ACCEPTED, Sign.DISCARDED})
_BOOT = re.compile(r"-- (?:Boot|Reboot)\b")


@dataclass(slots=True)
class Life:
    """What the log says of one queue id, from when it was given until it is given again."""

    queue_id: str
    since: datetime
    line: str  # the first one
    message_id: str = ""
    named_at: datetime | None = None
    signs: set[Sign] = field(default_factory=set)
    proof: str = ""  # the line that decides

    @property
    def accepted(self) -> bool:
        return bool(self.signs & _ACCEPTED)

    @property
    def refused(self) -> bool:
        return not self.accepted and Sign.REFUSED in self.signs

    def take(self, sign: Sign, line: str) -> None:
        """Add a sign; the first line that shows the acceptance is the proof, or else that of the refusal."""
        if not self.accepted and (sign in _ACCEPTED or (sign is Sign.REFUSED and not self.refused)):
            self.proof = line
        self.signs.add(sign)


@dataclass(slots=True)
class Logs:
    """What was read."""

    coverage: dict[str, Coverage] = field(default_factory=dict)  # by host
    lives: dict[str, list[Life]] = field(default_factory=lambda: defaultdict(list))  # by Message-ID
    mentions: dict[str, str] = field(default_factory=dict)  # by Message-ID: a line that has it in another form
    discards: dict[str, list[datetime]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by host, of unnamed e-mails
    lines: int = 0
    of_other_programs: int = 0
    not_understood: int = 0
    samples: list[str] = field(default_factory=list)  # of the last ones


@dataclass(slots=True)
class _Event:
    moment: datetime
    said: Said
    line: str


def read(files: Collection[LogFile], message_ids: Collection[str], zone: tzinfo) -> Logs:
    """Read the files for these Message-IDs, given without < and >. Raises files.CannotBeRead."""
    reader = _Reader(sorted(files, key=lambda file: _begin(file, zone)), message_ids, zone)
    reader.look_for_message_ids()
    if reader.queue_ids:
        reader.gather_lines()
    return reader.logs


def _begin(file: LogFile, zone: tzinfo) -> datetime:
    """Return the time of the first line that has one: files are read in this order."""
    clock = Clock(zone, file.changed)
    return next((line.moment for text in file.lines() if (line := take_apart(text, clock))), file.changed)


class _Reader:
    def __init__(self, files: Sequence[LogFile], message_ids: Collection[str], zone: tzinfo) -> None:
        self.logs = Logs()
        self.queue_ids: set[tuple[str, str]] = set()  # with the host
        self._files, self._zone = files, zone
        self._wanted = frozenset(message_ids)
        plain = sorted((_plain(message_id), message_id) for message_id in message_ids)
        self._plain, self._by_plain = [text for text, _ in plain], [message_id for _, message_id in plain]

    def look_for_message_ids(self) -> None:
        for text, line, said in self._lines(counted=True):
            coverage = self.logs.coverage.get(line.host)
            if coverage is None:
                coverage = self.logs.coverage[line.host] = Coverage(line.moment, line.moment)
            coverage.note(line, said.sign)
            if said.names:
                self._note_name(text, line, said)
            elif said.sign is Sign.DISCARDED:
                self.logs.discards[line.host].append(line.moment)

    def gather_lines(self) -> None:
        """Find the lines of our queue ids, and that of a client that left while its e-mail came in."""
        events: dict[tuple[str, str], list[_Event]] = defaultdict(list)
        receiving: dict[tuple[str, str], str] = {}  # by host and process id
        for text, line, said in self._lines():
            process = (line.host, line.pid)
            queue_id = said.queue_id
            if said.sign is Sign.BEGUN:
                receiving[process] = queue_id
            elif said.sign is Sign.REFUSED and not queue_id:
                queue_id = receiving.pop(process, "")
            if said.sign is not Sign.OTHER and (line.host, queue_id) in self.queue_ids:
                _append(events[line.host, queue_id], _Event(line.moment, said, text[:LONGEST_PROOF]))
        for (_, queue_id), of_id in events.items():
            for life in lives(queue_id, of_id):
                if life.message_id in self._wanted:
                    self.logs.lives[life.message_id].append(life)

    def _lines(self, *, counted: bool = False) -> Iterator[tuple[str, Line, Said]]:
        """Yield the lines of mail servers, with what they say."""
        for file in self._files:
            clock = Clock(self._zone, file.changed)
            for text in file.lines():
                self.logs.lines += counted
                line = take_apart(text, clock)
                if line is None:
                    if counted:
                        self._note_strange(text)
                    continue
                said = _said(line)
                if said and (said.sign is not Sign.LOST or line.host in self.logs.coverage):
                    yield text, line, said
                else:
                    self.logs.of_other_programs += counted

    def _note_name(self, text: str, line: Line, said: Said) -> None:
        if said.message_id in self._wanted and said.whole:
            self.queue_ids.add((line.host, said.queue_id))
            return
        plain = _plain(said.message_id)
        if len(plain) < SHORTEST_MENTION:
            return
        at = bisect_left(self._plain, plain)
        found = self._plain[at] if at < len(self._plain) else ""
        if found == plain or (not said.whole and found.startswith(plain)):
            self.logs.mentions.setdefault(self._by_plain[at], text[:LONGEST_PROOF])

    def _note_strange(self, text: str) -> None:
        if _BOOT.match(text):
            for coverage in self.logs.coverage.values():
                coverage.note_boot()
        elif text and not text.startswith("-- "):  # what journalctl says of itself
            self.logs.not_understood += 1
            self.logs.samples = [*self.logs.samples, text[:LONGEST_PROOF]][-SAMPLES:]


def lives(queue_id: str, events: Sequence[_Event]) -> Iterator[Life]:
    """Cut what the log says of a queue id into lives, each of one e-mail.

    A life begins with the client's line. Postfix itself sends e-mails, too: these begin with their Message-ID, if the
    life before has one already. The lines of a life may stand in any order: a program writes when it comes to it.
    """
    life: Life | None = None
    for event in sorted(events, key=_in_life):
        sign = event.said.sign
        named_again = event.said.names and life is not None and life.message_id
        if life is None or sign is Sign.BEGUN or named_again:
            if life is not None:
                yield life
            life = Life(queue_id, event.moment, event.line)
        if event.said.names:
            life.message_id, life.named_at = event.said.message_id, event.moment
        life.take(sign, event.line)
    if life is not None:
        yield life


def _in_life(event: _Event) -> tuple[datetime, bool]:
    """Sort by time; the client's line first, as programs' lines may stand in files of their own.

    No queue id is given twice in a second: it has the microseconds in it.
    """
    return event.moment, event.said.sign is not Sign.BEGUN


def _append(events: list[_Event], event: _Event) -> None:
    """Keep the event, but for one that only repeats the last: a deferred e-mail has a line for each attempt."""
    if not (events and events[-1].said == event.said and event.said.sign is Sign.ACCEPTED):
        events.append(event)


def _said(line: Line) -> Said | None:
    """Return what the line says; None if another program wrote it."""
    if postfix.is_postfix(line):
        return postfix.read(line)
    if exim.is_exim(line):
        return exim.read(line)
    return Said(Sign.LOST) if _LOSSES.search(line.text) else None


def _plain(message_id: str) -> str:
    return _NOT_PLAIN.sub("", message_id.lower())
