"""Addresses of e-mail: read strictly, and written in the one form that mail servers take."""

import re
from email.utils import getaddresses, parseaddr
from functools import lru_cache
from unicodedata import category

import idna
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

# What could end a header: all control characters, and the separators of lines and paragraphs; and halves of surrogate
# pairs, which are no text.
_CONTROLS = {"Cc", "Cs", "Zl", "Zp"}
LONGEST = 320  # characters: 64 before the @, 255 after it (RFC 5321, 4.5.3.1)
LONGEST_NAME = 200


class CannotBeWritten(ValueError):
    """This e-mail cannot be written, whenever it is tried; the message says why."""


def canonical(text: str) -> str:
    """Return the address with its domain in ASCII and lower case. Raises CannotBeWritten.

    The part before the @ stays as it is: only its own mail server knows what it means (RFC 5321, 2.3.11). It may have
    letters that are not ASCII, which a relay must know how to take (RFC 6531).
    """
    refuse_controls(text, "the address")
    local, _, domain = text.rpartition("@")
    if not local.isprintable():
        raise CannotBeWritten(f"There is an invisible character before the @ of the address {text!r}.")
    try:
        validate_email(text if local.isascii() else f"{_in_ascii(local)}@{domain}")
    except ValidationError as error:
        raise CannotBeWritten(f"{text!r} is no e-mail address.") from error
    try:
        ascii_domain = domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    except idna.IDNAError as error:
        raise CannotBeWritten(f"{text!r} is no e-mail address: {error}.") from error
    return f"{local}@{ascii_domain.lower()}"


def as_stored(text: str) -> str:
    """Return the address as e-mails have it, for looking them up; what is no address, as it is, without blanks."""
    try:
        return canonical(text.strip())
    except CannotBeWritten:
        return text.strip()


def split(text: str) -> tuple[str, str]:
    """Return name and canonical address of `Name <address>`, or of an address alone. Raises CannotBeWritten."""
    refuse_controls(text, "the address")
    if "<" not in text:
        return "", canonical(text.strip())
    (name, address), *others = getaddresses([text])
    if not address or others or len(name) > LONGEST_NAME:
        raise CannotBeWritten(f"{text!r} is no e-mail address: write address, or Name <address>.")
    return name, canonical(address)


def from_address() -> str:
    """Return the bare address of DEFAULT_FROM_EMAIL, such as `Name <name@example.com>`. Raises CannotBeWritten."""
    return _bare(settings.DEFAULT_FROM_EMAIL)


def redacted(text: str, address: str) -> str:
    """Return the text without the address: what is written down is kept for longer than addresses."""
    if not address or address.lower() not in text.lower():  # as of nearly all replies
        return text
    return re.sub(re.escape(address), "<recipient>", text, flags=re.IGNORECASE)


def refuse_controls(text: str, where: str) -> None:
    """Raise CannotBeWritten if there is a line break or another control character, which could end a header."""
    if any(category(character) in _CONTROLS for character in text):
        raise CannotBeWritten(f"There is a line break or a control character in {where}: {text!r}.")


@lru_cache(maxsize=10)
def _bare(sender: str) -> str:
    refuse_controls(sender, "DEFAULT_FROM_EMAIL")
    return canonical(parseaddr(sender)[1])


def _in_ascii(local: str) -> str:
    """Return the part before the @ with a plain letter for each letter that is not ASCII."""
    return "".join(letter if letter.isascii() else "x" for letter in local)
