"""Reads logs for what they say about Message-IDs of ours. All files are read up to three times.

1. The first reading finds the years of lines that name no year, because only a file's end shows the year.
2. The second looks for our Message-IDs in each line, whatever wrote it. It records with which queue ids they came in,
   what each host's log covers, and where a line was not understood.
3. The third takes place if such queue ids were found. It gathers the lines that have them, and cuts them into lives.

The third is needed because a queue id's other lines may stand in a file that was read before. Only what the logs say
about our Message-IDs is kept, and one number for each minute in which a Message-ID was logged.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from itertools import pairwise

from weir.workers.mail.evidence import exim, losses, postfix
from weir.workers.mail.evidence.coverage import EVER, Coverage, LogGap, Place, add, of_loss
from weir.workers.mail.evidence.formats.files import LogFile, family, rotation
from weir.workers.mail.evidence.formats.lines import LogLine
from weir.workers.mail.evidence.formats.packings import Damaged
from weir.workers.mail.evidence.formats.records import LogRecord, Records, years_of
from weir.workers.mail.evidence.formats.years import Years
from weir.workers.mail.evidence.lives import Event, Life, append, lives
from weir.workers.mail.evidence.losses import Reach
from weir.workers.mail.evidence.signs import LoggedSign, Sign
from weir.workers.mail.evidence.traces import Traces

SAMPLES = 3  # lines that are shown, of those not understood
LONGEST_PROOF = 500  # characters of a line that are kept
MOST_MENTIONS = 8  # lines that are kept for a Message-ID
AND_MORE = "... and more lines"
_BOOTS = ("-- Boot", "-- Reboot")
# Mail servers whose logs cannot be read. If a host has such lines, the lack of other lines proves nothing.
_NOT_READ = frozenset(
    {"sendmail", "sm-mta", "sm-msp-queue", "smtpd", "opensmtpd", "qmail", "qmail-send"}
    | {"maddy", "stalwart", "haraka", "zmta", "james", "dma", "MSExchangeTransport"}
)


@dataclass(slots=True)
class Logs:
    """What the logs say."""

    coverage: dict[str, Coverage] = field(default_factory=dict)  # by host
    gaps: list[LogGap] = field(
        default_factory=list
    )  # of any host: because a line, or the rest of a file, was not understood
    lives: dict[str, list[Life]] = field(default_factory=lambda: defaultdict(list))  # by Message-ID
    mentions: dict[str, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by Message-ID: lines that have it, and whose meaning is not known
    not_read: list[str] = field(default_factory=list)  # sentences about files and hosts without a log that can be read
    lines: int = 0
    of_other_programs: int = 0
    not_understood: int = 0
    samples: list[str] = field(default_factory=list)  # the last of these lines


@dataclass(slots=True)
class _Hosts:
    """The hosts whose lines stand in a file."""

    mail: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)


def read(files: Collection[LogFile], message_ids: Collection[str], zone: tzinfo, year: int | None = None) -> Logs:
    """Read the files for these Message-IDs, which are given without < and >.

    `year` is the year of the files' last lines, if the operator knows it.
    """
    reader = _Reader(years_of(files, zone, year), message_ids, zone)
    reader.look_for_message_ids()
    if reader.queue_ids:
        reader.gather_lines()
    return reader.logs


class _Reader:
    def __init__(self, known: dict[LogFile, Years], message_ids: Collection[str], zone: tzinfo) -> None:
        self.logs = Logs()
        self.queue_ids: set[tuple[str, str]] = set()  # each after its host
        self._years, self._zone = known, zone
        self._files = sorted(known, key=self._begin)
        self._wanted = frozenset(message_ids)
        self._sorted = sorted(message_ids)
        self._traces = Traces(message_ids)
        self._other_servers: dict[str, str] = {}  # by host: a mail server whose log is not read
        self._last_of_family: dict[str, datetime] = {}
        self._losses: dict[str, list[LogGap]] = defaultdict(
            list
        )  # by host; kept until the end, because a host's first line of a mail server may come later
        self._lost_for_all: set[str] = set()  # hosts that have lost lines, and may gather the logs of others
        self._places: dict[str, Place] = {}  # by file: the times at which it begins and ends

    def _begin(self, file: LogFile) -> datetime:
        """Return the time of the first line that has a time: files are read in the order of these times."""
        try:
            return next((record.line.moment for record in self._records(file) if record.line), file.changed)
        except Damaged:
            return file.changed

    def _records(self, file: LogFile) -> Records:
        return Records(file, self._zone, self._years[file].first)

    def look_for_message_ids(self) -> None:
        seen: dict[str, _Hosts] = {}
        for file in self._files:
            place = Place(moment=self._last_of_family.get(file.host, EVER))
            seen[file.name] = _Hosts()
            damage = ""
            try:
                for record in self._records(file):
                    self._note(record, file.name, place, seen[file.name])
            except Damaged as error:
                damage = str(error)
                place.moment = place.moment if error.only_rest else EVER
            place.end(file.changed, damage)
            self._note_file(file, place)
        self._note_what_is_not_read(seen)
        self._note_losses()
        self._note_missing_files()
        for coverage in self.logs.coverage.values():
            coverage.close()

    def gather_lines(self) -> None:
        """Gather the lines that have our queue ids, and lines about clients that left while such an e-mail came in."""
        events: dict[tuple[str, str], list[Event]] = defaultdict(list)
        receiving: dict[tuple[str, str], str] = {}  # by host and process id
        for text, line, said in self._mail_lines():
            process = (line.host, line.pid)
            queue_id = said.queue_id
            if said.sign is Sign.BEGUN:
                receiving[process] = queue_id
            elif said.sign is Sign.REFUSED and not queue_id:
                queue_id = receiving.pop(process, "")
            if said.sign is not Sign.OTHER and (line.host, queue_id) in self.queue_ids:
                append(events[line.host, queue_id], Event(line.moment, said, text[:LONGEST_PROOF]))
        for (_, queue_id), of_id in events.items():
            for life in lives(queue_id, of_id):
                if life.message_id in self._wanted:
                    self.logs.lives[life.message_id].append(life)

    def _mail_lines(self) -> Iterator[tuple[str, LogLine, LoggedSign]]:
        for file in self._files:
            try:
                for record in self._records(file):
                    said = _said(record.line) if record.line else None
                    if record.line and said:
                        yield record.text, record.line, said
            except Damaged:  # the second reading has recorded the damage
                continue

    def _note(self, record: LogRecord, file: str, place: Place, hosts: _Hosts) -> None:
        """Record what a line says about its host, and where lines may be missing."""
        self.logs.lines += 1
        line = record.line
        said = _said(line) if line else None
        if record.strange:
            self._note_strange(record, place)
        if line:
            place.move(line.moment)
            (hosts.mail if said else hosts.others).add(line.host)
            if record.strange:  # the missing line may belong before or after this line
                place.stop_at(record.strange)
        if line and said:
            self._note_mail(line, said, file)
        elif line:
            self._note_other(line, place)
        elif record.text.startswith(_BOOTS):
            for coverage in self.logs.coverage.values():
                coverage.note_boot()
        self._note_mentions(record, said)

    def _note_mail(self, line: LogLine, said: LoggedSign, file: str) -> None:
        coverage = self.logs.coverage.get(line.host)
        if coverage is None:
            coverage = self.logs.coverage[line.host] = Coverage(line.moment, line.moment)
        if self._is_beginning_of_ours(said):
            coverage.note_cut(line, strange=False)
        coverage.note(line, said, file)
        coverage.certain |= line.instance != "" or exim.is_certain(line)
        if said.names and said.whole and said.message_id in self._wanted:
            self.queue_ids.add((line.host, said.queue_id))

    def _is_beginning_of_ours(self, said: LoggedSign) -> bool:
        """Return whether the line may have named an e-mail of ours before its end was cut off."""
        if not said.names or said.message_id in self._wanted or (said.sign is Sign.NAMED and said.whole):
            return False
        at = bisect_left(self._sorted, said.message_id)
        return at < len(self._sorted) and self._sorted[at].startswith(said.message_id)

    def _note_other(self, line: LogLine, place: Place) -> None:
        self.logs.of_other_programs += 1
        if line.program in _NOT_READ:
            self._other_servers.setdefault(line.host, line.program)
        reach = losses.reach(line.text)
        if reach is None:
            return
        coverage = self.logs.coverage.get(line.host)
        before = coverage.previous if coverage else None
        add(self._losses[line.host], of_loss(reach, before or place.before, line.moment, line.text))
        if reach is Reach.ALL:
            self._lost_for_all.add(line.host)

    def _note_mentions(self, record: LogRecord, said: LoggedSign | None) -> None:
        """Keep a line that has a Message-ID of ours but does not properly name it: another program's, or a cut one."""
        for message_id in self._traces.find(record.searched):
            if not (said and said.names and said.whole and said.message_id == message_id):
                mentions = self.logs.mentions[message_id]
                if len(mentions) <= MOST_MENTIONS:
                    mentions.append(record.text[:LONGEST_PROOF] if len(mentions) < MOST_MENTIONS else AND_MORE)

    def _note_strange(self, record: LogRecord, place: Place) -> None:
        place.stop_at(record.strange)
        if record.line is None:
            self.logs.not_understood += 1
            self.logs.samples = [*self.logs.samples, record.text[:LONGEST_PROOF]][-SAMPLES:]

    def _note_file(self, file: LogFile, place: Place) -> None:
        known = self._years[file]
        if not known.certain:
            why = (
                f"the lines of {file.name} name no year, and it was changed long after the last of them, as if it had "
                "been copied: say --year, or give a copy that has kept its time (scp -p)"
            )
            place.gaps.append(LogGap(known.since or EVER, known.until or file.changed, why))
        self.logs.gaps += place.gaps
        self._places[file.name] = place
        self._last_of_family[file.host] = max(place.moment, self._last_of_family.get(file.host, EVER))

    def _note_what_is_not_read(self, seen: dict[str, _Hosts]) -> None:
        """Record which files and hosts have no line of Postfix or Exim."""
        known = {host: coverage for host, coverage in self.logs.coverage.items() if coverage.certain}
        self.logs.coverage = known
        families = {file.host for file in self._files if file.host == family(file.name)}
        self.logs.gaps += [gap for host in families & known.keys() if (gap := known[host].overlap())]
        for name, hosts in seen.items():
            of_file = hosts.mail | hosts.others
            if of_file and not of_file & known.keys():
                self.logs.not_read.append(
                    f"{name} has no line of Postfix or Exim, but lines of {', '.join(sorted(of_file)[:3])}: if these "
                    "are not mail servers behind the relay, leave the file out, or name those that are (--host)."
                )
        for host, program in self._other_servers.items():
            if host not in known:
                self.logs.not_read.append(
                    f"{host} has lines of {program}, which cannot be read: if it is not a mail server behind the "
                    "relay, name those that are (--host)."
                )

    def _note_losses(self) -> None:
        for host, gaps in self._losses.items():
            if host in self.logs.coverage:
                self.logs.coverage[host].gaps += gaps
            elif host in self._lost_for_all:
                self.logs.gaps += [replace(gap, why=f"{host} says that {gap.why}") for gap in gaps]

    def _note_missing_files(self) -> None:
        """Record where a file of a rotated log is missing: mail.log.2, if mail.log.1 and mail.log.3 were given."""
        numbers: dict[str, dict[int, str]] = defaultdict(dict)
        for name, place in self._places.items():
            number = rotation(name)
            if number is not None and place.first is not None:
                numbers[family(name)][number] = name
        for of_family in numbers.values():
            for newer, older in pairwise(sorted(of_family)):
                if older - newer > 1:
                    since, until = self._places[of_family[older]].moment, self._places[of_family[newer]].first or EVER
                    why = f"{of_family[older]} and {of_family[newer]} were given, and none between them"
                    self.logs.gaps.append(LogGap(min(since, until), max(since, until), why))


def _said(line: LogLine) -> LoggedSign | None:
    """Return what the line says; None if another program wrote it."""
    if postfix.is_postfix(line):
        return postfix.read(line)
    return exim.read(line) if line.is_exim else None
