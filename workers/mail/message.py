"""What is transmitted: an e-mail to the last byte, with the addresses of its envelope."""

from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage as ParsedMessage
from typing import Any

from django.core.mail import EmailMultiAlternatives

# What a backend takes from an object instead of from its headers, or must write itself.
_OF_ITS_OWN = {"subject", "from", "to", "mime-version", "content-type", "content-transfer-encoding"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """An e-mail to one recipient. The same in each attempt."""

    from_address: str  # of the envelope: bounces go there
    recipient: str
    content: bytes  # RFC 5322, with CRLF
    idempotency_key: str  # of this e-mail and this content, in all installations

    def parsed(self) -> ParsedMessage:
        """Return its headers and parts, for a transport that needs them one by one."""
        return message_from_bytes(self.content, policy=policy.SMTP)

    def as_django(self) -> EmailMultiAlternatives:
        """Return it as Django's backends take it. Those that write MIME write these bytes."""
        parsed = self.parsed()
        text, html = (parsed.get_body((kind,)) for kind in ("plain", "html"))
        message = _Written(
            subject=parsed["Subject"],
            body=text.get_content() if text else "",
            from_email=parsed["From"],
            to=[self.recipient],
            headers={name: value for name, value in parsed.items() if name.lower() not in _OF_ITS_OWN},
            attachments=[
                (part.get_filename(), part.get_payload(decode=True), part.get_content_type())
                for part in parsed.iter_attachments()
            ],
        )
        if html:
            message.attach_alternative(html.get_content(), "text/html")
        message.written = message_from_bytes(self.content, _Transmitted, policy=policy.SMTP)
        return message


class _Transmitted(ParsedMessage):
    """A parsed message, for Django 5.2's SMTP backend, which names the end of lines that a policy says in 6.0."""

    def as_bytes(self, *_arguments: Any, **_options: Any) -> bytes:
        """Return it with the ends of lines of its policy."""
        return super().as_bytes()


class _Written(EmailMultiAlternatives):
    """A message of Django's that was written before."""

    written: ParsedMessage

    def message(self, **_options: Any) -> ParsedMessage:
        """Return what was written, instead of writing it anew."""
        return self.written
