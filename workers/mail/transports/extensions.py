"""Decides which of a server's extensions an e-mail needs, and so the parameters of MAIL.

The extensions are SIZE (RFC 1870), 8BITMIME (RFC 6152) and SMTPUTF8 (RFC 6531).
"""

import re
from collections.abc import Mapping

from weir.workers.mail.message import Message

_NO_PART_OF_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f<>]")  # RFC 5321, 4.1.2: each ends an address or a command


class CannotBeTaken(ValueError):
    """The server has said in its reply to EHLO that it cannot take such an e-mail; the message says why."""


def needs_utf8(message: Message) -> bool:
    """Return whether an address or a header has letters beyond ASCII; headers inside the body do not count."""
    head = message.content[: message.content.find(b"\r\n\r\n")]  # without a copy of the body
    return not (message.recipient.isascii() and message.from_address.isascii() and head.isascii())


def parameters(message: Message, offered: Mapping[str, str]) -> str:
    """Return the parameters of MAIL for an e-mail; `offered` has the extensions that EHLO listed, in lower case.

    An e-mail in ASCII needs no extension, and names only its size. Raises CannotBeTaken.
    """
    if any(_NO_PART_OF_AN_ADDRESS.search(address) for address in (message.from_address, message.recipient)):
        raise CannotBeTaken("An address has a space, a control character, < or > in it.")
    said = [*_size(message, offered)]
    is_utf8 = needs_utf8(message)
    if is_utf8 and "smtputf8" not in offered:
        raise CannotBeTaken(
            "An address or a header has letters beyond ASCII, and the mail server does not offer SMTPUTF8."
        )
    if is_utf8 or not message.content.isascii():
        if "8bitmime" not in offered:
            raise CannotBeTaken("The e-mail has bytes beyond ASCII, and the mail server does not offer 8BITMIME.")
        said.append("BODY=8BITMIME")
    if is_utf8:
        said.append("SMTPUTF8")
    return "".join(f" {parameter}" for parameter in said)


def _size(message: Message, offered: Mapping[str, str]) -> list[str]:
    """Return the parameter SIZE, if it is offered. The size includes line breaks, but no doubled dots (RFC 1870, 5)."""
    if "size" not in offered:
        return []
    size = len(message.content) + (0 if message.content.endswith(b"\r\n") else 2)
    limit, *_ = [*offered["size"].split(), ""]
    if limit.isdecimal() and 0 < int(limit) < size:  # RFC 1870, 4: 0 means unlimited
        raise CannotBeTaken(f"The e-mail has {size} bytes, and the mail server takes {limit} at most.")
    return [f"SIZE={size}"]
