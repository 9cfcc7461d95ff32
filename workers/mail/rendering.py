"""An e-mail is rendered to the last byte: once, before its first attempt."""

import hashlib
import re
from base64 import encodebytes
from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import uuid4

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils import timezone, translation

from workers.mail import kinds
from workers.mail.addresses import CannotBeWritten, canonical, from_address, refuse_controls
from workers.mail.kinds import Attachment, Content
from workers.mail.models import Email

_LONGEST_WORD = 60  # characters in a header that Python folds well
_LONGEST_LINE = 998  # RFC 5322, 2.1.1
_LONGEST_FOLDED = 78  # likewise
_NOT_IN_MESSAGE_ID = re.compile(r"[^A-Za-z0-9_-]")  # more would be allowed (RFC 5322, 3.2.3)
_HEADER_NAME = re.compile(r"[!-9;-~]+")  # RFC 5322, 3.6.8
# Those that Weir writes. Cc and Bcc would name recipients of whom there is no row.
_OURS = frozenset({"to", "cc", "bcc", "subject", "date", "message-id", "mime-version", "auto-submitted", "return-path"})
_MADE_OF_PARTS = frozenset({"message", "multipart"})  # types that must not be in base64 (RFC 2046, 5.1 and 5.2)
_LINE_END = re.compile(rb"\r\n|\r|\n")
_LONGEST_SUBJECT: int = Email._meta.get_field("subject").max_length or 0  # noqa: SLF001  documented, in spite of its name


class _Policy(EmailPolicy):
    """In seven bits, which each relay takes: what was written once is never written anew for one that takes no more.

    Python breaks a long word of ASCII, such as the URL of List-Unsubscribe or a Message-ID, into encoded words, which
    nobody decodes there: a header with such a word is not folded.
    """

    def header_store_parse(self, name: str, value: object) -> tuple[str, Any]:
        """Keep a header that fits one line: Python would parse it, and write the same, in ten times the time."""
        text = str(value)
        fits = text.isascii() and text.isprintable() and len(name) + len(text) + 2 <= _LONGEST_FOLDED
        if fits and not name.lower().startswith("content-"):  # of these, Python adds parameters
            return name, text
        return super().header_store_parse(name, value)

    def fold(self, name: str, value: str) -> str:
        """Return the header with its lines ended."""
        is_long = any(len(word) > _LONGEST_WORD for word in value.split())
        if is_long and value.isascii() and len(name) + len(value) + 2 <= _LONGEST_LINE:
            return f"{name}: {value}{self.linesep}"
        folded: str = super().fold(name, value)
        return folded

    def fold_binary(self, name: str, value: str) -> bytes:
        """Return the header as bytes."""
        return self.fold(name, value).encode("utf-8" if self.utf8 else "ascii")


# The headers of an attached e-mail stay as they are: they may be signed.
_POLICY = _Policy(linesep="\r\n", cte_type="7bit", refold_source="none")


class Rendered(NamedTuple):
    """What is transmitted of an e-mail, and what its row says about that."""

    recipient: str
    content: bytes
    subject: str

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the content, which proves later what was sent."""
        return hashlib.sha256(self.content).hexdigest()


def render(email: Email) -> Rendered:
    """Render the e-mail by its kind, its context and its language. The row need not be stored yet.

    Raises CannotBeWritten if the kind, the context, an address, a header or a template is at fault. A kind that queries
    the database may raise django.db's OperationalError and InterfaceError.
    """
    if not email.recipient:
        raise CannotBeWritten("It has no recipient: give it one with `manage.py emails correct ID --to ADDRESS`.")
    recipient = canonical(email.recipient)
    try:
        with translation.override(email.language or None):
            content = kinds.get(email.kind)(**email.context)
        message = _message(email, recipient, content)
        return Rendered(recipient, message.as_bytes(), content.subject[:_LONGEST_SUBJECT])
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
    """Return the one of LANGUAGES that a language means, such as de for de-at. Raises CannotBeWritten."""
    try:
        return translation.get_supported_language_variant(language)
    except (LookupError, ValueError) as error:
        known = settings.LANGUAGES[0][0] if settings.LANGUAGES else settings.LANGUAGE_CODE
        raise CannotBeWritten(f"There is no language {language!r}: write one of LANGUAGES, such as {known}.") from error


def message_id(kind: str, key: str) -> str:
    """Return a Message-ID for an e-mail, to be kept in its row: the same in every attempt.

    Another installation, or a database that was made anew, has the same keys: chance keeps them apart. It also makes
    delivery reports hard to forge.
    """
    try:
        domain = from_address().rpartition("@")[2]
    except CannotBeWritten:  # writing the e-mail will say so: it can be queued all the same
        domain = "localhost"
    return f"<{kind}-{_NOT_IN_MESSAGE_ID.sub('_', key)}-{uuid4().hex[:12]}@{domain}>"


def _message(email: Email, recipient: str, content: Content) -> EmailMessage:
    refuse_controls(content.subject, "the subject")
    message = EmailMessage(_POLICY if recipient.isascii() else _POLICY.clone(utf8=True))
    for name, value in _headers(email, content):
        refuse_controls(value, f"the header {name}")
        message[name] = value
    local, _, domain = recipient.rpartition("@")
    message["To"] = Address(email.recipient_name, local, domain)
    message.set_content(content.text)
    if content.html:
        message.add_alternative(content.html, subtype="html")
        html = cast("EmailMessage", message.get_payload(1))
    for attachment in content.attachments:
        if attachment.content_id and content.html:
            _attach(html, attachment, inline=True)
        else:
            _attach(message, attachment, inline=False)
    return message


def _headers(email: Email, content: Content) -> Iterator[tuple[str, str]]:
    own = {name.lower(): name for name in content.headers}
    for lower, name in own.items():
        if lower in _OURS or lower.startswith("content-") or not _HEADER_NAME.fullmatch(name):
            raise CannotBeWritten(f"A kind of e-mail cannot set the header {name!r}.")
    if "from" not in own:
        yield "From", _named(settings.DEFAULT_FROM_EMAIL, from_address())
    yield "Subject", content.subject
    yield "Date", format_datetime(_date(email))
    yield "Message-ID", email.message_id
    yield "Auto-Submitted", "auto-generated"  # RFC 3834: nobody's holiday notice need answer
    if content.unsubscribe_url:
        yield "List-Unsubscribe", f"<{content.unsubscribe_url}>"
        yield "List-Unsubscribe-Post", "List-Unsubscribe=One-Click"
    yield from content.headers.items()


@lru_cache(maxsize=10)
def _named(sender: str, address: str) -> str:
    name, _ = parseaddr(sender)
    return str(Address(display_name=name, addr_spec=address))


def _date(email: Email) -> datetime:
    """Return when it is sent, as far as that is known: an e-mail of last week looks strange today."""
    now = timezone.now()
    return max(now, email.next_attempt_at) if isinstance(email.next_attempt_at, datetime) else now  # else the default


def _attach(message: EmailMessage, attachment: Attachment, *, inline: bool) -> None:
    refuse_controls(attachment.name, "the name of an attachment")
    options: dict[str, Any] = {"filename": attachment.name}
    if inline:
        refuse_controls(attachment.content_id, "the id of an attachment")
        options["cid"] = f"<{attachment.content_id}>"
    attach = message.add_related if inline else message.add_attachment
    main, _, sub = attachment.content_type.partition("/")
    if main.lower() not in _MADE_OF_PARTS:
        attach(attachment.content, main, sub, **options)
    elif sub.lower() == "rfc822":
        attach(_attached(attachment), cte="7bit", **options)
    else:
        raise CannotBeWritten(
            f"{attachment.name!r} cannot be attached as {attachment.content_type}: give an e-mail the type "
            f"message/rfc822, and any other file application/octet-stream."
        )


def _attached(attachment: Attachment) -> EmailMessage:
    """Return an attached e-mail in seven bits. Its parts may be in base64, but not the whole (RFC 2046, 5.2.1)."""
    email = cast("EmailMessage", message_from_bytes(_LINE_END.sub(b"\r\n", attachment.content), policy=_POLICY))
    if not email.keys():
        raise CannotBeWritten(
            f"{attachment.name!r} has no headers, so it is no e-mail: give it the type application/octet-stream."
        )
    for part in email.walk():
        text = part.get_payload()
        if isinstance(text, str) and not (text.isascii() and max(map(len, text.split("\r\n"))) <= _LONGEST_LINE):
            encoded = encodebytes(cast("bytes", part.get_payload(decode=True))).decode()
            del part["Content-Transfer-Encoding"]
            part["Content-Transfer-Encoding"] = "base64"
            part.set_payload(encoded)
    return email
