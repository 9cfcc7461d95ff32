"""What is transmitted: an e-mail to the last byte, with the addresses of its envelope."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from email import encoders, message_from_bytes, policy
from email.message import EmailMessage as ParsedMessage
from email.message import MIMEPart
from email.mime.base import MIMEBase
from typing import Any, NamedTuple, cast

import django
from django.core.mail import EmailMultiAlternatives

from weir.workers.mail.headers import lines, reading

# Headers that an API is not given as headers: it has a field for them, or must write them itself. Cc and Bcc would add
# recipients.
_OF_ITS_OWN = frozenset(
    {"subject", "from", "to", "cc", "bcc", "reply-to", "mime-version", "content-type", "content-transfer-encoding"}
)
_AS_WRITTEN = policy.SMTP.clone(refold_source="none")
LONGEST_KEY = 256  # characters of an idempotency key that providers take
_TAKES_PARTS = django.VERSION >= (6, 0)  # older versions take only attachments of email.mime


class Attachment(NamedTuple):
    """A part beside the texts. It is inline if the HTML shows it, under the name `content_id`."""

    part: MIMEPart
    filename: str | None
    content: bytes
    content_type: str  # without its parameters
    content_id: str  # without < and >; empty if the part is not inline


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """An e-mail's headers and parts, as an API takes them one by one. Lines of texts end with a line feed."""

    sender: str
    to: list[str]
    reply_to: list[str]
    subject: str
    text: str | None
    html: str | None
    alternatives: list[tuple[str, str]]  # further forms of the same text, each with its type, such as text/calendar
    attachments: list[Attachment]
    headers: dict[str, str]  # all other headers


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """An e-mail to one recipient. Each attempt transmits the same message."""

    from_address: str  # the envelope sender, to which delivery reports go
    recipient: str
    content: bytes  # RFC 5322, with CRLF
    idempotency_key: str  # names this e-mail and this content, uniquely among all installations

    def parsed(self) -> ParsedMessage:
        """Return the e-mail, parsed by Python's email package."""
        return message_from_bytes(self.content, policy=_AS_WRITTEN)

    def parts(self) -> Parts:
        """Return headers and parts for an API that takes them one by one. Raises texts.CannotBeWritten."""
        parsed = self.parsed()
        headers = [(name, str(value)) for name, value in parsed.raw_items()]
        leaves = [*_leaves(parsed)]
        text, html = (next((leaf for leaf in leaves if leaf.is_body(kind)), None) for kind in ("plain", "html"))
        others = [leaf for leaf in leaves if leaf is not text and leaf is not html]
        forms = [leaf for leaf in others if leaf.is_further_form]
        return Parts(
            sender=", ".join(_addresses(headers, "From")),
            to=_addresses(headers, "To"),
            reply_to=_addresses(headers, "Reply-To"),
            subject=next((reading.text(value, name) for name, value in headers if name.lower() == "subject"), ""),
            text=_text(text.part) if text else None,
            html=_text(html.part) if html else None,
            alternatives=[(_text(leaf.part), leaf.content_type) for leaf in forms],
            attachments=[_attachment(leaf) for leaf in others if leaf not in forms],
            headers={name: reading.text(value, name) for name, value in headers if name.lower() not in _OF_ITS_OWN},
        )

    def as_django(self) -> EmailMultiAlternatives:
        """Return the message in the form that Django's backends take. Backends that transmit bytes send `content`."""
        parts = self.parts()
        message = FromOutbox(
            subject=parts.subject,
            body=parts.text if parts.text is not None else parts.html or "",
            from_email=parts.sender,
            to=[self.recipient],
            reply_to=parts.reply_to,
            headers=parts.headers,
        )
        if parts.html is not None and parts.text is None:
            message.content_subtype = "html"  # Django's way to say that there is no plain text
        elif parts.html is not None:
            message.attach_alternative(parts.html, "text/html")
        for form in parts.alternatives:
            message.attach_alternative(*form)
        for attachment in parts.attachments:
            _attach(message, attachment)
        message.written = cast("_Transmitted", message_from_bytes(self.content, _Transmitted, policy=_AS_WRITTEN))
        message.written.content = self.content
        return message


class _Transmitted(ParsedMessage):
    """A parsed message that gives back its original bytes, whatever line ends a backend asks for."""

    content: bytes | None = None  # the bytes of the whole message; None for its parts

    def as_bytes(self, unixfrom: bool = False, policy: Any = None, **_options: Any) -> bytes:  # noqa: ANN401
        """Return the bytes from which the message was parsed."""
        return super().as_bytes(unixfrom, policy) if self.content is None else self.content


class FromOutbox(EmailMultiAlternatives):
    """A Django message that a mailer sends: its bytes are written already."""

    written: _Transmitted

    def message(self, **_options: Any) -> ParsedMessage:
        """Return the message that was written before, instead of writing it anew."""
        return self.written


class _Leaf(NamedTuple):
    """A part that holds content. Its headers are read once, because each reading parses them."""

    part: MIMEPart
    content_type: str
    disposition: str | None
    above: str  # the type of the part around this part; empty if there is none

    def is_body(self, kind: str) -> bool:
        """Return whether this part may be the e-mail's text of this kind; the first such part is that text."""
        return self.content_type == f"text/{kind}" and self.disposition != "attachment"

    @property
    def is_further_form(self) -> bool:
        """Whether this part is another form of the e-mail's text."""
        is_text = self.content_type.startswith("text/") and self.disposition != "attachment"
        return is_text and self.above == "multipart/alternative"


def _leaves(part: MIMEPart, above: str = "") -> Iterator[_Leaf]:
    """Yield the parts that hold content. An attached e-mail is content."""
    content_type = part.get_content_type()
    if not content_type.startswith("multipart/"):
        yield _Leaf(part, content_type, part.get_content_disposition(), above)
        return
    for below in part.iter_parts():
        yield from _leaves(below, content_type)


def _addresses(headers: list[tuple[str, str]], header: str) -> list[str]:
    """Return the addresses in a header, with names in quotes where that is necessary."""
    values = (value for name, value in headers if name.lower() == header.lower())
    return [lines.mailbox(*found) for value in values for found in reading.mailboxes(value, header)]


def _text(part: MIMEPart) -> str:
    text: str = part.get_content()
    return text.replace("\r\n", "\n")


def _attachment(leaf: _Leaf) -> Attachment:
    part = leaf.part
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):  # an attached e-mail, which is parsed as well
        content = b"".join(below.as_bytes() for below in part.iter_parts())
    headers = {name.lower(): str(value) for name, value in part.raw_items()}
    name = reading.text(headers.get("content-id", ""), "Content-ID").removeprefix("<").removesuffix(">")
    # Python's add_related marks a part with a file name as an attachment, but the part's place shows that it is inline.
    is_shown = leaf.disposition != "attachment" or leaf.above == "multipart/related"
    filename = reading.file_name(headers.get("content-disposition", "")) or None
    return Attachment(part, filename, content, leaf.content_type, name if is_shown else "")


def _attach(message: FromOutbox, attachment: Attachment) -> None:
    """Attach a file as most backends expect: as a tuple or, if it is inline, as an object: a tuple cannot say that."""
    if attachment.content_id:
        message.attach(_inline_part(attachment) if _TAKES_PARTS else _inline_mime(attachment))
    else:
        message.attach(attachment.filename, attachment.content, attachment.content_type)


def _inline_part(attachment: Attachment) -> MIMEPart:
    part = deepcopy(attachment.part)
    del part["Content-Disposition"]
    name = lines.file_name(attachment.filename) if attachment.filename else []
    part["Content-Disposition"] = "; ".join(["inline", *name])
    return part


def _inline_mime(attachment: Attachment) -> MIMEBase:
    mime = MIMEBase(*attachment.content_type.split("/", 1))
    mime.set_payload(attachment.content)
    encoders.encode_base64(mime)
    mime["Content-ID"] = f"<{attachment.content_id}>"
    name = {"filename": attachment.filename} if attachment.filename else {}
    mime.add_header("Content-Disposition", "inline", **name)
    return mime
