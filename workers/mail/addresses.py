"""Reads e-mail addresses strictly, and writes them in the one form that mail servers take."""

import hashlib
import re
from functools import lru_cache

import idna
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from weir.workers.mail.headers import words
from weir.workers.mail.headers.texts import CannotBeWritten, refuse_controls

__all__ = ["CannotBeWritten"]  # so that code that reads addresses need not import `headers`

LONGEST = 320  # characters: 64 before the @, 255 after it (RFC 5321, 4.5.3.1)
LONGEST_NAME = 200
_LONGEST_LIST = 2_000  # characters
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PARTS_OF_LIST = re.compile(r'(?:"(?:[^"\\]|\\.)*"|<[^<>]*>|[^,])+')
_ENDS_AN_ADDRESS = re.compile(r"[\s<>]")  # refused even in quotes, where many servers do not expect them


def canonical(text: str) -> str:
    """Return the address with its domain in ASCII and lower case. Raises CannotBeWritten.

    The part before the @ stays unchanged, because only the address's own mail server can interpret it (RFC 5321,
    2.3.11). It may have letters that are not ASCII, which a relay must support (RFC 6531).
    """
    refuse_controls(text, "the address")
    local, _, domain = text.rpartition("@")
    if not local.isprintable():
        raise CannotBeWritten(f"There is an invisible character before the @ of the address {text!r}.")
    if words.BEGIN in local:  # some readers would decode it to another address
        raise CannotBeWritten(f"{text!r} is not an e-mail address: it has {words.BEGIN}, as encoded words begin.")
    try:
        validate_email(text if local.isascii() else f"{_in_ascii(local)}@{domain}")
    except ValidationError as error:
        raise CannotBeWritten(f"{text!r} is not an e-mail address.") from error
    if _ENDS_AN_ADDRESS.search(text):
        raise CannotBeWritten(f"{text!r} is not an e-mail address that a mail server takes: it has a space, < or >.")
    try:
        ascii_domain = domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    except idna.IDNAError as error:
        raise CannotBeWritten(f"{text!r} is not an e-mail address: {error}.") from error
    return f"{local}@{ascii_domain.lower()}"


def as_stored(text: str) -> str:
    """Return the address in the form in which e-mails store it, to look e-mails up.

    A text that is not an address is returned without the blanks around it.
    """
    try:
        return canonical(text.strip())
    except CannotBeWritten:
        return text.strip()


def split(text: str) -> tuple[str, str]:
    """Return name and canonical address of `Name <address>`, or of an address alone. Raises CannotBeWritten.

    A name is text, with any letters and signs, such as `Shop: Ltd`; it may be in quotes. If it consists of encoded
    words, as `email.utils.formataddr` writes them, the words are decoded.
    """
    refuse_controls(text, "the address")
    stripped = text.strip()
    if not stripped.endswith(">") or len(stripped) > _LONGEST_LIST:
        return "", canonical(stripped)
    given, _, address = stripped[:-1].rpartition("<")
    name = _name(given.strip())
    if name is None or len(name) > LONGEST_NAME:
        raise CannotBeWritten(f"{text!r} is not an e-mail address: write address, or Name <address>.")
    refuse_controls(name, "the name of the address")
    return name, canonical(address)


def split_list(text: str) -> list[tuple[str, str]]:
    """Return names and canonical addresses of a list with commas. Raises CannotBeWritten."""
    if len(text) > _LONGEST_LIST:
        raise CannotBeWritten(f"A list of addresses has {_LONGEST_LIST} characters at most, but is {text[:100]!r}...")
    return [split(part) for part in _PARTS_OF_LIST.findall(text) if part.strip()] or [split(text)]


def from_address() -> str:
    """Return the bare address of DEFAULT_FROM_EMAIL, such as `Name <name@example.com>`. Raises CannotBeWritten."""
    return sender()[1]


def sender() -> tuple[str, str]:
    """Return name and address of DEFAULT_FROM_EMAIL. Raises CannotBeWritten."""
    return _sender(settings.DEFAULT_FROM_EMAIL)


def address_hash(address: str) -> str:
    """Return the SHA-256 of the address in lower case, which identifies the address even after it was forgotten."""
    return hashlib.sha256(address.lower().encode()).hexdigest()


def redacted(text: str, address: str) -> str:
    """Return the text with `<recipient>` for the address, because such texts are kept for longer than addresses."""
    if not address or address.lower() not in text.lower():  # the quick way out, for nearly all replies
        return text
    return re.sub(re.escape(address), "<recipient>", text, flags=re.IGNORECASE)


def _name(given: str) -> str | None:
    """Return the name, unquoted and decoded, with single blanks; None if the text seems to have several addresses."""
    if found := _QUOTED.fullmatch(given):
        name = re.sub(r"\\(.)", r"\1", found[1])
    elif words.are_all(given):
        name = words.decoded(given)
    elif set(given) & set("<>@"):
        return None
    else:
        name = given
    return " ".join(filter(None, name.split(" ")))


@lru_cache(maxsize=10)
def _sender(setting: str) -> tuple[str, str]:
    refuse_controls(setting, "DEFAULT_FROM_EMAIL")
    name, address = split(setting)
    if not address.isascii():
        raise CannotBeWritten(
            f"{address!r} has letters beyond ASCII before the @: most mail servers take no e-mail from such an address."
        )
    return name, address


def _in_ascii(local: str) -> str:
    """Return the part before the @ with a plain letter for each letter that is not ASCII."""
    return "".join(letter if letter.isascii() else "x" for letter in local)
