"""What a line of a log can say about an e-mail, or about the log itself."""

from dataclasses import dataclass
from enum import Enum, auto


class Sign(Enum):
    """What a line says about the e-mail that has its queue id."""

    BEGUN = auto()  # a queue id was given: from here on it means another e-mail than before
    NAMED = auto()  # the Message-ID was read from the content, whose end may still be missing
    RECEIVED = auto()  # named and accepted at the same time
    ACCEPTED = auto()  # the queue has it, completely
    DISCARDED = auto()  # the client was told 250, and the e-mail was thrown away
    REFUSED = auto()  # it is not in the queue and never will be
    STARTED = auto()  # the mail server began to run
    STOPPED = auto()  # it was asked to end
    CUT = auto()  # the end of this line is missing, with what it says
    OTHER = auto()  # understood, and of no interest


@dataclass(frozen=True, slots=True)
class LoggedSign:
    """A sign, of the e-mail with this queue id, or with that of the connection that the process serves."""

    sign: Sign
    queue_id: str = ""
    message_id: str = ""  # without < and >, as far as the log has it
    whole: bool = True  # the Message-ID was not cut off

    @property
    def names(self) -> bool:
        """Whether the line has a Message-ID."""
        return self.sign is Sign.NAMED or self.sign is Sign.RECEIVED


OTHER = LoggedSign(Sign.OTHER)


def bare(message_id: str) -> str:
    """Return a Message-ID without < and >."""
    return message_id.strip().removeprefix("<").removesuffix(">")
