"""What a project's own mail backend needs to report how far an attempt came: `from weir.mail_backend import Transport`.

These names are stable. docs/reference/python-api.md says how Weir treats each of them.
"""

from weir.workers.mail.message import Attachment, Message, Parts
from weir.workers.mail.phases import Phase
from weir.workers.mail.transports.base import (
    Accepted,
    BrokenOff,
    CannotTake,
    OutcomeUnknown,
    Refused,
    RelayRefuses,
    Transport,
    Unreachable,
)

__all__ = [
    "Accepted",
    "Attachment",
    "BrokenOff",
    "CannotTake",
    "Message",
    "OutcomeUnknown",
    "Parts",
    "Phase",
    "Refused",
    "RelayRefuses",
    "Transport",
    "Unreachable",
]
