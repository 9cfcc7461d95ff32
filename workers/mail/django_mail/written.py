"""Reads what Django would transmit of a message: its bytes, its envelope, and what Weir's own headers say.

The bytes are those that Django's backend for SMTP transmits. Only headers that begin with `X-Weir-` are left out. The
message itself is not changed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.message import Message
from typing import Any, Final, cast

import django
from django.core.mail import EmailMessage

from weir.postgres.texts import storable
from weir.workers.mail import addresses
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.django_mail import keys

MOST_RECIPIENTS: Final = 100  # of a message; each is an e-mail of its own
LARGEST: Final = 32 * 2**20  # bytes of a message
MOST_STORED: Final = 128 * 2**20  # bytes of all its e-mails, each of which has the whole message
_OURS: Final = ("X-Weir-Key", "X-Weir-Kind")
# What django-anymail's backends read of a message, and its bytes do not have.
_OF_PROVIDERS: Final = (
    "envelope_sender",
    "esp_extra",
    "merge_data",
    "merge_global_data",
    "merge_headers",
    "merge_metadata",
    "metadata",
    "send_at",
    "tags",
    "template_id",
    "track_clicks",
    "track_opens",
)
_MESSAGE_ID = re.compile(r"<[!-;=?-~]+@[!-;=?-~]+>")  # RFC 5322, 3.6.4
_LONGEST_ID = 250
_TAKES_POLICY = django.VERSION >= (6, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenMessage:
    """A message of Django's, as it is transmitted to each of its recipients."""

    content: bytes
    subject: str
    sender: str  # of the envelope
    recipients: Mapping[str, str]  # names by addresses: of To, Cc and Bcc, each address once
    message_id: str
    is_id_shared: bool  # whether others than the recipient may know the Message-ID
    digest: str
    key: str  # that the project has given; empty if it has given none
    kind: str  # as the key


def written(message: EmailMessage) -> WrittenMessage:
    """Return what is transmitted of the message, which has a recipient.

    Raises CannotBeWritten if Weir cannot queue it, and what Django raises if it cannot be written.
    """
    _refuse_what_providers_read(message)
    ours = {name.lower(): str(value) for name, value in message.extra_headers.items()}
    given = ours.get("x-weir-key")
    key = keys.of_block() if given is None else keys.checked(given)
    recipients = _recipients(message)
    built = _built(message)
    content = _content(built)
    if len(content) > LARGEST or len(content) * len(recipients) > MOST_STORED:
        raise CannotBeWritten(
            f"The message has {len(content):,} bytes, for {len(recipients)} recipients: {LARGEST:,} bytes are the most "
            f"for a message, and {MOST_STORED:,} for all that it makes. Send a link to the files instead."
        )
    sender = addresses.split(str(message.from_email))[1]
    return WrittenMessage(
        content=content,
        subject=storable(str(message.subject), len(str(message.subject))),
        sender=sender,
        recipients=recipients,
        message_id=_message_id(built),
        is_id_shared=len(recipients) > 1 or "message-id" in ours,
        digest=keys.digest(built, sender),
        key=key,
        kind=ours.get("x-weir-kind", "").strip(),
    )


def _refuse_what_providers_read(message: EmailMessage) -> None:
    """Raise CannotBeWritten if the message has more than its bytes, which would be lost without a word."""
    values = {name: vars(message).get(name) for name in _OF_PROVIDERS}
    plain = (bool, str, int, float, dict, list, tuple, datetime)  # django-anymail has an object for what is not set
    if found := [name for name, value in values.items() if isinstance(value, plain)]:
        raise CannotBeWritten(
            f"The message has {', '.join(found)}, for a provider, and the outbox takes only what is in its bytes: send "
            "it through the provider's own backend."
        )


def _recipients(message: EmailMessage) -> dict[str, str]:
    """Return the names of all recipients, by their addresses. Raises CannotBeWritten."""
    found: dict[str, str] = {}
    for given in message.recipients():
        name, address = addresses.split(str(given))
        found.setdefault(address, name)
        if len(found) > MOST_RECIPIENTS:
            raise CannotBeWritten(
                f"The message has {len(message.recipients()):,} recipients, and may have {MOST_RECIPIENTS}: send "
                "several messages."
            )
    return found


def _built(message: EmailMessage) -> Message:
    """Return the message as an object of Python's, as Django's backend for SMTP gets it, without Weir's headers."""
    write: Any = message.message
    built = cast("Message", write(policy=policy.SMTP) if _TAKES_POLICY else write())
    for name in _OURS:
        del built[name]
    return built


def _content(built: Message) -> bytes:
    as_bytes: Any = built.as_bytes
    content: bytes = as_bytes() if _TAKES_POLICY else as_bytes(linesep="\r\n")
    return content


def _message_id(built: Message) -> str:
    """Return the Message-ID. Raises CannotBeWritten if logs and delivery reports could not name it."""
    found = str(built.get("Message-ID", "")).strip()
    if len(found) <= _LONGEST_ID and _MESSAGE_ID.fullmatch(found):
        return found
    raise CannotBeWritten(
        f"The header Message-ID must be of the form <name@example.com>, but is {found!r}: leave it out."
    )
