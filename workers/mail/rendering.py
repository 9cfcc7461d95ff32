"""An e-mail is rendered to the last byte, before any connection is opened."""

import re
from email.generator import BytesGenerator
from email.utils import parseaddr
from io import BytesIO
from unicodedata import category
from uuid import uuid4

import idna
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.validators import validate_email
from django.db import InterfaceError, OperationalError

from workers.mail import kinds
from workers.mail.kinds import Draft
from workers.mail.message import Message
from workers.mail.models import Email

# What could end a header: all control characters, and the separators of lines and paragraphs.
CONTROLS = {"Cc", "Zl", "Zp"}
_NOT_IN_MESSAGE_ID = re.compile(r"[^A-Za-z0-9_-]")  # more would be allowed (RFC 5322, 3.2.3)


class CannotBeWritten(ValueError):
    """This e-mail cannot be written, whenever it is tried; the message says why."""


def write(email: Email, draft: Draft | None = None) -> Message:
    """Render the e-mail from its draft, which costs a query if it is not given.

    Raises CannotBeWritten if the kind, the address, a header or a template is at fault. A template that queries the
    database may raise django.db's OperationalError and InterfaceError.
    """
    try:
        draft = draft or kinds.find(email)
        return Message(
            from_address=from_address(),
            recipient=address(draft.recipient),
            content=_content(_rendered(draft, email.message_id)),
            idempotency_key=email.message_id,
        )
    except (CannotBeWritten, OperationalError, InterfaceError):
        raise
    except (kinds.UnknownKind, kinds.NotFound) as error:
        raise CannotBeWritten(str(error)) from error
    except Exception as error:  # a kind and a template are an app's code, which may raise anything
        raise CannotBeWritten(f"{type(error).__name__}: {error}") from error


def from_address() -> str:
    """Return the bare address of DEFAULT_FROM_EMAIL, such as `Name <name@example.com>`. Raises CannotBeWritten."""
    _refuse_controls(settings.DEFAULT_FROM_EMAIL, "DEFAULT_FROM_EMAIL")
    return address(parseaddr(settings.DEFAULT_FROM_EMAIL)[1])


def address(text: str) -> str:
    """Return the address with its domain in ASCII. Raises CannotBeWritten."""
    _refuse_controls(text, "the address")
    local, _, domain = text.rpartition("@")
    try:
        validate_email(text)
        local.encode("ascii")  # Django accepts a few letters that are not ASCII, but in another case are
    except (ValidationError, UnicodeEncodeError) as error:
        raise CannotBeWritten(f"{text!r} is no e-mail address.") from error
    try:
        return f"{local}@{domain if domain.isascii() else idna.encode(domain, uts46=True).decode()}"
    except idna.IDNAError as error:
        raise CannotBeWritten(f"{text!r} is no e-mail address: {error}.") from error


def message_id(kind: str, key: str) -> str:
    """Return a Message-ID for an e-mail, to be kept in its row: the same in every attempt.

    Another installation, or a database that was made anew, has the same keys: chance keeps them apart.
    """
    try:
        domain = from_address().rpartition("@")[2]
    except CannotBeWritten:  # writing the e-mail will say so: it can be queued all the same
        domain = "localhost"
    return f"<{kind}-{_NOT_IN_MESSAGE_ID.sub('_', key)}-{uuid4().hex[:12]}@{domain}>"


def _rendered(draft: Draft, identity: str) -> EmailMessage:
    content = draft.content()
    _refuse_controls(content.subject, "the subject")
    message = EmailMultiAlternatives(
        subject=content.subject,
        body=content.text,
        to=[draft.recipient],
        headers={"Message-ID": identity, "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(content.html, "text/html")
    return message


def _refuse_controls(text: str, where: str) -> None:
    if any(category(character) in CONTROLS for character in text):
        raise CannotBeWritten(f"There is a line break or a control character in {where}: {text!r}.")


def _content(message: EmailMessage) -> bytes:
    built, written = message.message(), BytesIO()
    built.set_boundary(uuid4().hex)  # Python would look for one that does not occur in the whole content
    BytesGenerator(written, mangle_from_=False).flatten(built, linesep="\r\n")
    return written.getvalue()
