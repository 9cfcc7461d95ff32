"""Renders an e-mail to the last byte, once, before its first attempt."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import NamedTuple, cast
from uuid import uuid4

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import translation

from weir.workers.mail import kinds
from weir.workers.mail.addresses import CannotBeWritten, canonical, from_address
from weir.workers.mail.headers import lines
from weir.workers.mail.kinds import Content, Draft, Drafting
from weir.workers.mail.models import Email
from weir.workers.mail.writing import fields
from weir.workers.mail.writing.attachments import attach
from weir.workers.mail.writing.policy import POLICY, new_boundary

_NOT_IN_MESSAGE_ID = re.compile(r"[^A-Za-z0-9_-]")  # RFC 5322, 3.2.3, would allow more characters
_NOT_IN_7BIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # NUL (RFC 2045, 2.7), and what servers may remove
_HALVES = re.compile("[\ud800-\udfff]")
LONGEST_SUBJECT: int = Email._meta.get_field("subject").max_length or 0  # noqa: SLF001  documented, in spite of its name


class Rendered(NamedTuple):
    """What is transmitted of an e-mail, and what the e-mail's row says about it."""

    recipient: str
    content: bytes
    subject: str

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the content, which proves later what was sent."""
        return hashlib.sha256(self.content).hexdigest()


def render(email: Email, said: Content | None = None) -> Rendered:
    """Render the e-mail from its kind, its context and its language. The row need not be stored yet.

    If `said` is given, the e-mail says that. Raises CannotBeWritten if the kind, the context, an address, a header or a
    template is at fault. A kind that queries the database may raise django.db's OperationalError and InterfaceError.
    """
    if not email.recipient:
        raise CannotBeWritten("It has no recipient: give it one with `manage.py emails correct ID --to ADDRESS`.")
    with _of_an_app(email):
        recipient = canonical(email.recipient)
        content = said or kinds.get(email.kind)(**email.context)
        message = _message(email, recipient, content)
        return Rendered(recipient, message.as_bytes(), str(content.subject)[:LONGEST_SUBJECT])


def drafted(email: Email, drafting: Drafting) -> Draft | None:
    """Return what an e-mail of a drafted kind would say now, and tell; None if it has nothing to tell.

    Raises the same errors as `render`.
    """
    with _of_an_app(email):
        return drafting.draft(email)


@contextmanager
def _of_an_app(email: Email) -> Iterator[None]:
    """Run code of an app, which may raise anything, in the e-mail's language. Raises the errors of `render`."""
    try:
        with translation.override(email.language or None):
            yield
    except (CannotBeWritten, OperationalError, InterfaceError):
        raise
    except kinds.UnknownKind as error:
        raise CannotBeWritten(str(error)) from error
    except TypeError as error:
        misfit = kinds.misfit(email.kind, email.context)
        raise CannotBeWritten(f"{misfit} Give them in the context." if misfit else f"TypeError: {error}") from error
    except Exception as error:  # a kind and a template are an app's code, which may raise anything
        raise CannotBeWritten(f"{type(error).__name__}: {error}") from error


def project_language(language: str) -> str:
    """Return the language in LANGUAGES that is used for `language`, such as de for de-at. Raises CannotBeWritten."""
    try:
        return translation.get_supported_language_variant(language)
    except (LookupError, ValueError) as error:
        known = settings.LANGUAGES[0][0] if settings.LANGUAGES else settings.LANGUAGE_CODE
        raise CannotBeWritten(f"There is no language {language!r}: write one of LANGUAGES, such as {known}.") from error


def message_id(kind: str, key: str) -> str:
    """Return a new Message-ID for an e-mail. The e-mail's row keeps it, so that every attempt has the same one.

    Another installation, or a new database, may use the same kinds and keys. The random part keeps their Message-IDs
    apart, and makes delivery reports hard to forge.
    """
    try:
        domain = from_address().rpartition("@")[2]
    except CannotBeWritten:  # rendering the e-mail will report this error
        domain = "localhost"
    return f"<{kind}-{_NOT_IN_MESSAGE_ID.sub('_', key)}-{uuid4().hex[:12]}@{domain}>"


def _message(email: Email, recipient: str, content: Content) -> EmailMessage:
    message = EmailMessage(POLICY)
    for name, line in fields.of(email, recipient, content):
        message[name] = line
    message.set_content(content.text, cte=_encoding(content.text))
    if content.html:
        message.add_alternative(content.html, subtype="html", cte=_encoding(content.html))
        html = cast("EmailMessage", message.get_payload(1))
    for attachment in content.attachments:
        is_shown = bool(attachment.content_id and content.html)
        attach(html if is_shown else message, attachment, inline=is_shown)
    _bound(message)
    return message


def _bound(message: EmailMessage) -> None:
    """Give a boundary to each multipart that has none."""
    for part in message.walk():
        if part.get_content_maintype() == "multipart" and not part.get_boundary():
            boundary = lines.parameters("Content-Type", part.get_content_type(), [f'boundary="{new_boundary()}"'])
            part.replace_header("Content-Type", boundary)


def _encoding(text: str) -> str | None:
    """Return how a text must be encoded; None if Python may choose, from its letters and the length of its lines."""
    if _HALVES.search(text):
        raise CannotBeWritten("There is half of a surrogate pair in a text, which is not a letter.")
    return "quoted-printable" if _NOT_IN_7BIT.search(text) else None
