"""Shows people what is, was or would be transmitted of an e-mail."""

import base64
import re
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage

from weir.workers.mail import rendering
from weir.workers.mail.headers import reading
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.phases import EmailState

_CID = re.compile(r"""\bcid:([^"'\s)>]+)""")
_RENDERED_LATER = frozenset({EmailState.PENDING, EmailState.CLAIMED})


class NothingToShow(LookupError):
    """There is no content to show: it was deleted, or the e-mail was never rendered. The message says which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviewedPart:
    """A file that is sent along."""

    name: str
    content_type: str
    size: int  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailPreview:
    """An e-mail, taken apart."""

    content: bytes  # the e-mail as it is transmitted
    headers: tuple[tuple[str, str], ...]
    text: str
    html: str  # with the pictures that are sent along, as data URLs
    attachments: tuple[PreviewedPart, ...]
    is_stored: bool  # false if it was rendered for this preview: a later rendering may differ


def of(email: Email) -> EmailPreview:
    """Return what is, or was, transmitted of the e-mail; if it is not rendered yet, what would be transmitted now.

    Raises NothingToShow, and addresses.CannotBeWritten if the e-mail cannot be rendered.
    """
    if stored := Rendering.objects.filter(pk=email.pk).first():
        return read(bytes(stored.content), is_stored=True)
    if email.state in _RENDERED_LATER and email.recipient:
        return read(rendering.render(email).content, is_stored=False)
    if email.renderings:
        raise NothingToShow(
            f"What was transmitted of e-mail {email.pk} was deleted after WEIR_MAIL_CONTENT_RETENTION, or when its "
            f"recipient was forgotten. Its SHA-256 is {email.content_hash}."
        )
    raise NothingToShow(f"E-mail {email.pk} was never rendered.")


def rendered_now(kind: str, context: dict[str, object], language: str, to: str) -> EmailPreview:
    """Render an e-mail that is not stored. Raises addresses.CannotBeWritten."""
    email = Email(kind=kind, context=context, language=language, recipient=to)
    email.message_id = rendering.message_id(kind, "preview")
    return read(rendering.render(email).content, is_stored=False)


def read(content: bytes, *, is_stored: bool) -> EmailPreview:
    """Return the parts of an e-mail, for a preview."""
    message = message_from_bytes(content, policy=policy.SMTP)
    text, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    return EmailPreview(
        content=content,
        headers=tuple((name, reading.shown(str(value))) for name, value in message.raw_items()),
        text=text.get_content() if text else "",
        html=_with_pictures(html.get_content(), message) if html else "",
        attachments=tuple(_part(part) for part in message.iter_attachments()),
        is_stored=is_stored,
    )


def _part(part: EmailMessage) -> PreviewedPart:
    content = part.get_payload(decode=True)
    size = len(content) if isinstance(content, bytes) else len(part.as_bytes())
    return PreviewedPart(name=part.get_filename() or "", content_type=part.get_content_type(), size=size)


def _with_pictures(html: str, message: EmailMessage) -> str:
    """Return the HTML with data URLs for the pictures that are sent along: a browser cannot resolve `cid:` URLs."""
    pictures = {
        str(part["Content-ID"]).strip("<>"): part
        for part in message.walk()
        if part["Content-ID"] and part.get_content_maintype() == "image"
    }

    def data(found: re.Match[str]) -> str:
        if (part := pictures.get(found[1])) is None:
            return found[0]
        encoded = base64.b64encode(part.get_content()).decode()
        return f"data:{part.get_content_type()};base64,{encoded}"

    return _CID.sub(data, html)
