"""Adds files to an e-mail."""

import re
from base64 import encodebytes
from email import message_from_bytes
from email.message import EmailMessage
from typing import cast

from weir.workers.mail.headers import lines, words
from weir.workers.mail.headers.texts import CannotBeWritten, refuse_controls
from weir.workers.mail.kinds import EmailAttachment
from weir.workers.mail.writing.policy import POLICY

LONGEST_NAME = 255  # characters: file systems take no more
_LONGEST_TYPE = 500
_MADE_OF_PARTS = frozenset({"message", "multipart"})  # types that must not be in base64 (RFC 2046, 5.1 and 5.2)
_LINE_END = re.compile(rb"\r\n|\r|\n")
_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"  # RFC 6838, 4.2
_PARAMETER = r"""[A-Za-z0-9!#$%&'*+.^_`{|}~-]+=(?:[A-Za-z0-9!#$%&'*+.^_`{|}~-]+|"(?:[ !#-\[\]-~]|\\[ -~])*")"""
_TYPE = re.compile(rf"({_NAME})/({_NAME})((?: *; *{_PARAMETER})*)")  # RFC 2045, 5.1
_PARAMETERS = re.compile(_PARAMETER)
_CONTENT_ID = re.compile(r"[!#-;=?-~]{1,200}")


def attach(message: EmailMessage, attachment: EmailAttachment, *, inline: bool) -> None:
    """Add a file or, if `inline`, a picture that the HTML shows. Raises CannotBeWritten."""
    kind, parameters = _checked(attachment)
    main, _, sub = kind.partition("/")
    add = message.add_related if inline else message.add_attachment
    if main.lower() not in _MADE_OF_PARTS:
        add(attachment.content, main, sub)
    elif sub.lower() == "rfc822":
        add(_attached(attachment), cte="7bit")
    else:
        raise CannotBeWritten(
            f"{attachment.name!r} cannot be attached as {attachment.content_type}: give an e-mail the type "
            f"message/rfc822, and any other file application/octet-stream."
        )
    part = cast("list[EmailMessage]", message.get_payload())[-1]
    if parameters:
        _set(part, "Content-Type", lines.parameters("Content-Type", kind, parameters))
    shown = "inline" if inline else "attachment"
    name = lines.file_name(attachment.name) if attachment.name else []
    _set(part, "Content-Disposition", lines.parameters("Content-Disposition", shown, name))
    if inline:
        _set(part, "Content-ID", lines.structured("Content-ID", f"<{attachment.content_id}>"))


def _checked(attachment: EmailAttachment) -> tuple[str, list[str]]:
    """Return the type and its parameters. Raises CannotBeWritten if the type, the name or the id is bad."""
    refuse_controls(attachment.name, "the name of an attachment")
    if len(attachment.name) > LONGEST_NAME:
        raise CannotBeWritten(f"The name of an attachment has {LONGEST_NAME} characters at most: {attachment.name!r}.")
    refuse_controls(attachment.content_id, "the id of an attachment")
    if attachment.content_id and not _CONTENT_ID.fullmatch(attachment.content_id):
        raise CannotBeWritten(
            f"The id of an attachment is of ASCII letters, such as logo, has no blanks, and is written without < and "
            f">: {attachment.content_id!r}."
        )
    refuse_controls(attachment.content_type, "the type of an attachment")
    found = _TYPE.fullmatch(attachment.content_type.strip())
    if not found or len(found[0]) > _LONGEST_TYPE or words.BEGIN in found[0]:
        raise CannotBeWritten(
            f"{attachment.name!r} cannot be attached as {attachment.content_type!r}: write a type such as image/png."
        )
    return f"{found[1]}/{found[2]}", _PARAMETERS.findall(found[3])


def _set(part: EmailMessage, name: str, line: lines.HeaderValue) -> None:
    del part[name]
    part[name] = line


def _attached(attachment: EmailAttachment) -> EmailMessage:
    """Return an attached e-mail in seven bits: its parts may be in base64, but not the whole (RFC 2046, 5.2.1)."""
    email = cast("EmailMessage", message_from_bytes(_LINE_END.sub(b"\r\n", attachment.content), policy=POLICY))
    if not email.keys():
        raise CannotBeWritten(
            f"{attachment.name!r} has no headers, so it is not an e-mail: give it the type application/octet-stream."
        )
    for part in email.walk():
        text = part.get_payload()
        if isinstance(text, str) and not _is_seven_bits(text):
            encoded = encodebytes(cast("bytes", part.get_payload(decode=True))).decode()
            del part["Content-Transfer-Encoding"]
            part["Content-Transfer-Encoding"] = "base64"
            part.set_payload(encoded)
    return email


def _is_seven_bits(text: str) -> bool:
    """Return whether a text can be transmitted unencoded in seven bits (RFC 2045, 2.7)."""
    return text.isascii() and "\x00" not in text and max(map(len, text.split("\r\n"))) <= lines.LONGEST_LINE
