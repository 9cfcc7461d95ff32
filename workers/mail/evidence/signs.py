"""Names what a line of a log can say about an e-mail, about the mail server, or about the log itself."""

from dataclasses import dataclass
from enum import Enum, auto


class Sign(Enum):
    """What a line says about the e-mail with the line's queue id; or about the mail server; or about the line."""

    BEGUN = auto()  # an e-mail got the queue id: from here on, the id stands for another e-mail than before
    NAMED = auto()  # the server has read the Message-ID; the end of the content may not have come yet
    RECEIVED = auto()  # the line both names and accepts the e-mail
    ACCEPTED = auto()  # the queue has the whole e-mail
    DISCARDED = auto()  # the server told the client 250, and threw the e-mail away
    REFUSED = auto()  # the e-mail is not in the queue, and will never be
    STARTED = auto()  # the mail server began to run
    STOPPED = auto()  # the mail server was asked to end
    CUT = auto()  # the end of the line is missing, so what the line says is not known
    OTHER = auto()  # the line is understood, and of no interest


@dataclass(frozen=True, slots=True)
class LoggedSign:
    """A sign, and the queue id of its e-mail; without an id, the e-mail is the one that the process was receiving."""

    sign: Sign
    queue_id: str = ""
    message_id: str = ""  # without < and >; only the part that the log has
    whole: bool = True  # whether the log has the whole Message-ID

    @property
    def names(self) -> bool:
        """Whether the line has a Message-ID."""
        return self.sign is Sign.NAMED or self.sign is Sign.RECEIVED


OTHER = LoggedSign(Sign.OTHER)


def bare(message_id: str) -> str:
    """Return a Message-ID without < and >."""
    return message_id.strip().removeprefix("<").removesuffix(">")
