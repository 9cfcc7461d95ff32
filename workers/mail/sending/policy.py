"""Decides, for a round, whether a stream needs another sender, and whether it is over. The functions are pure."""

from dataclasses import dataclass
from enum import Enum

ORDINARY_SENDERS = 2  # senders of a stream, if much is due: while one waits for an answer, the other works
MOST_SENDERS = 10  # senders of a stream in one process; each has connections to relays and to PostgreSQL
MOST_OF_ALL = 20  # senders of all streams; with so many, a stream gets no more than its ordinary senders
MOST_IN_HAND = 16 * 2**20  # bytes that the senders of a stream transmit; beyond that, none begins a further e-mail


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a round sees of a stream."""

    senders: int  # senders at work
    stalled: int  # those of them that have been busy with one e-mail for longer than others should wait
    are_many: bool  # the last batch was full, so more may be due
    has_ended: bool  # the outcome of some e-mail is known, so the relays answer
    is_one_enough: bool  # a relay has refused a further connection
    is_stopped: bool
    of_all: int = 0  # senders at work, including those of other streams
    in_hand: int = 0  # bytes of the e-mails that the stream's senders transmit


class Another(Enum):
    """Whether a further sender is needed."""

    NO = "no"
    YES = "yes"
    IF_ANY_IS_DUE = "if any is due"


def another_sender(seen: Situation) -> Another:
    """Return whether a further sender is needed, because too much is due for one sender, or all have stalled."""
    if seen.is_stopped or not seen.senders or seen.senders >= MOST_SENDERS or seen.in_hand > MOST_IN_HAND:
        return Another.NO
    if seen.of_all >= MOST_OF_ALL and seen.senders >= ORDINARY_SENDERS:
        return Another.NO
    if seen.senders < ORDINARY_SENDERS and seen.are_many and seen.has_ended and not seen.is_one_enough:
        return Another.YES
    return Another.IF_ANY_IS_DUE if seen.stalled == seen.senders else Another.NO


def is_over(*, now: float, end_at: float | None, stalled: int) -> bool:
    """Return whether the stream leaves the rest to other calls: its time is over, and no sender has stalled.

    A stalled sender keeps the call from ending, so others go on meanwhile.
    """
    return end_at is not None and now > end_at and not stalled
