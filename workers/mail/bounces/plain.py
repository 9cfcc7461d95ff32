"""Reports that are no MIME: Exim's, which name the recipients in X-Failed-Recipients, and qmail's (QSBMF)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.utils import getaddresses

_EXIM_COPY = re.compile(r"^-+ This is a copy of .*?-+\s*$", re.MULTILINE | re.DOTALL)
_QMAIL_BEGIN = re.compile(r"\s*Hi\. This is (?:the|a) ", re.IGNORECASE)
_QMAIL_COPY = re.compile(r"^--- (?:Below this line is a copy of the message|Enclosed )", re.MULTILINE)
_QMAIL_RECIPIENT = re.compile(r"^<([^<>\s]+@[^<>\s]+)>:[ \t]*\r?\n(.*?)(?=\r?\n\s*\r?\n|\Z)", re.MULTILINE | re.DOTALL)
_MESSAGE_ID = re.compile(r"^Message-ID:\s*(<[^<>\s]+>)", re.MULTILINE | re.IGNORECASE)
_REPLY = re.compile(r"(?<!\d)([45])\d\d[ -]")
_AUTO_REPLIED = "auto-replied"


@dataclass(frozen=True, slots=True)
class Failure:
    """What a text says of one recipient."""

    message_id: str
    recipient: str
    diagnostic: str


def failures(message: Message) -> Iterator[Failure]:
    """Yield what an e-mail in plain text says of recipients that were not reached."""
    if str(message["Auto-Submitted"] or "").strip().lower().startswith(_AUTO_REPLIED):
        return
    text = _text(message)
    if message["X-Failed-Recipients"]:
        yield from _of_exim(str(message["X-Failed-Recipients"]), text)
    elif _QMAIL_BEGIN.match(text):
        yield from _of_qmail(text)


def status_of_reply(text: str) -> str:
    """Return the class of an SMTP reply in the text as a status, such as 5.0.0 for `550 no such user`."""
    found = _REPLY.search(text)
    return f"{found[1]}.0.0" if found else ""


def _of_exim(recipients: str, text: str) -> Iterator[Failure]:
    said, copy = _parted(text, _EXIM_COPY)
    for _, address in getaddresses([recipients]):
        _, found, after = said.partition(f"\n  {address}\n")
        if address:
            yield Failure(_message_id(copy), address, re.split(r"\n\s*\n|\n  \S", after)[0] if found else "")


def _of_qmail(text: str) -> Iterator[Failure]:
    said, copy = _parted(text, _QMAIL_COPY)
    for found in _QMAIL_RECIPIENT.finditer(said):
        yield Failure(_message_id(copy), found[1], found[2])


def _parted(text: str, separator: re.Pattern[str]) -> tuple[str, str]:
    """Return what the server says, and the copy of the e-mail."""
    found = separator.search(text)
    return (text[: found.start()], text[found.end() :]) if found else (text, "")


def _message_id(copy: str) -> str:
    found = _MESSAGE_ID.search(copy)
    return found[1] if found else ""


def _text(message: Message) -> str:
    """Return the first part that is text; whatever its charset, what is looked for is ASCII."""
    for part in message.walk():
        if part.get_content_type() == "text/plain":
            payload = part.get_payload(decode=True)
            return payload.decode("latin-1").replace("\r\n", "\n") if isinstance(payload, bytes) else ""
    return ""
