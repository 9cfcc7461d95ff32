"""Cuts what the log says about a queue id into lives. A life is about one e-mail; then another e-mail gets the id."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from weir.workers.mail.evidence.signs import LoggedSign, Sign

# Of two lines from different loggers, the later line may have an earlier time, by this much at most.
LATEST = timedelta(minutes=1)
_EVER = datetime.min.replace(tzinfo=UTC)
_ACCEPTED = frozenset({Sign.RECEIVED, Sign.ACCEPTED, Sign.DISCARDED})


@dataclass(slots=True)
class Life:
    """What the log says about one queue id, from when an e-mail gets the id until another e-mail gets it."""

    queue_id: str
    since: datetime
    line: str  # the first line
    until: datetime = _EVER  # when the last line was written
    message_id: str = ""
    named_at: datetime | None = None
    signs: set[Sign] = field(default_factory=set)
    proof: str = ""  # the line that decides
    unclear: str = ""  # a line that may belong to this life, or to the life before

    @property
    def is_rest(self) -> bool:
        """Whether this life has an acceptance, but neither the e-mail's beginning nor its Message-ID."""
        return self.accepted and not self.message_id and Sign.BEGUN not in self.signs

    @property
    def accepted(self) -> bool:
        return bool(self.signs & _ACCEPTED)

    @property
    def refused(self) -> bool:
        return not self.accepted and Sign.REFUSED in self.signs

    def take(self, sign: Sign, line: str) -> None:
        """Add a sign. The proof is the first line that shows the acceptance, or else the first that shows a refusal."""
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

    A life begins with the line about the client. An e-mail that Postfix itself writes has no such line: its life begins
    with its Message-ID, if the life before has a Message-ID already. The other lines of a life may stand in any order,
    because each program writes its lines in its own time, and some loggers write seconds, others microseconds.
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
    """Return the key that sorts events by whole seconds and, within a second, puts the line about the client first.

    Programs may log to different files, so the order of reading means nothing. No queue id is given twice in a second,
    because a queue id contains the microseconds.
    """
    return event.moment.replace(microsecond=0), event.said.sign is not Sign.BEGUN


def append(events: list[Event], event: Event) -> None:
    """Append the event, unless it only repeats the last acceptance: a deferred e-mail has a line for each attempt."""
    if not (events and events[-1].said == event.said and event.said.sign is Sign.ACCEPTED):
        events.append(event)
