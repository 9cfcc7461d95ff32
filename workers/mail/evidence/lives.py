"""What the log says about a queue id, cut into lives: each is of one e-mail, until the id is given to another one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from weir.workers.mail.evidence.signs import LoggedSign, Sign

# How much earlier the time of one logger may be than that of another, for something that was done later.
LATEST = timedelta(minutes=1)
_EVER = datetime.min.replace(tzinfo=UTC)
_ACCEPTED = frozenset({Sign.RECEIVED, Sign.ACCEPTED, Sign.DISCARDED})


@dataclass(slots=True)
class Life:
    """What the log says about one queue id, from when it was given until it is given again."""

    queue_id: str
    since: datetime
    line: str  # the first one
    until: datetime = _EVER  # when the last one was written
    message_id: str = ""
    named_at: datetime | None = None
    signs: set[Sign] = field(default_factory=set)
    proof: str = ""  # the line that decides
    unclear: str = ""  # a line that may be of this life, or of the one before

    @property
    def is_rest(self) -> bool:
        """Whether this is the acceptance of an e-mail whose beginning and name stand elsewhere, or nowhere."""
        return self.accepted and not self.message_id and Sign.BEGUN not in self.signs

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
class Event:
    """A line about a queue id."""

    moment: datetime
    said: LoggedSign
    line: str


def lives(queue_id: str, events: Sequence[Event]) -> Iterator[Life]:
    """Cut what the log says about a queue id into lives, each of one e-mail.

    A life begins with the client's line. Postfix itself sends e-mails, too: these begin with their Message-ID, if the
    life before has one already. The lines of a life may stand in any order: each program writes in its own time. And
    some loggers give seconds, others microseconds.
    """
    life: Life | None = None
    for event in sorted(events, key=_in_life):
        sign = event.said.sign
        named_again = event.said.names and life is not None and life.message_id
        if life is None or sign is Sign.BEGUN or named_again:
            unclear = ""
            if life is not None:
                unclear = life.proof if life.is_rest and event.moment - life.until <= LATEST else ""
                yield life
            life = Life(queue_id, event.moment, event.line, unclear=unclear)
        if event.said.names:
            life.message_id, life.named_at = event.said.message_id, event.moment
        life.take(sign, event.line)
        life.until = event.moment
    if life is not None:
        yield life


def _in_life(event: Event) -> tuple[datetime, bool]:
    """Sort by whole seconds; the client's line first, because programs' lines may stand in files of their own.

    No queue id is given twice in a second: it has the microseconds in it.
    """
    return event.moment.replace(microsecond=0), event.said.sign is not Sign.BEGUN


def append(events: list[Event], event: Event) -> None:
    """Keep the event, unless it only repeats the last one: a deferred e-mail has a line for each attempt."""
    if not (events and events[-1].said == event.said and event.said.sign is Sign.ACCEPTED):
        events.append(event)
