"""Finds the ways in which mail servers may spell an address: the results for one address have a spelling in common."""

import re

from weir.workers.mail.addresses import LONGEST, as_stored

_XTEXT = re.compile(r"\+([0-9A-F]{2})")
_UTF8_ADDRESS = re.compile(r"\\x\{([0-9A-F]{2,6})\}")
_PLAIN_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+")
_BETWEEN = re.compile(r"[\s<>()\[\]\",;]+")
_AROUND = "'`:.|\\"
MOST_NAMES = 200


def plain(text: str) -> str:
    """Return the address in an address field, with escapes such as `+2B` decoded (RFC 3461, 4; RFC 6533, 3)."""
    text = _UTF8_ADDRESS.sub(_letter, text.strip("<> "))
    return _XTEXT.sub(_letter, text)


def spellings(address: str) -> frozenset[str]:
    """Return the ways in which an address may be spelt, in lower case: unchanged, decoded, and as e-mails store it.

    E-mails store an address with its domain in ASCII. For that spelling, a dot at the end of the domain is removed, and
    so are quotes that the part before the @ does not need.
    """
    found: set[str] = set()
    for text in {address.strip("<> "), plain(address)}:
        if not text or len(text) > LONGEST:
            continue
        local, _, domain = text.rpartition("@")
        if len(local) > 1 and local[0] == local[-1] == '"' and _PLAIN_LOCAL.fullmatch(local[1:-1]):
            local = local[1:-1]
        found |= {text.lower(), as_stored(f"{local}@{domain.rstrip('.')}").lower()}
    return frozenset(found)


def names(text: str) -> list[str]:
    """Return the words of a text that look like an address or a Message-ID, in their order, each once."""
    words = dict.fromkeys(word.strip(_AROUND) for word in _BETWEEN.split(text) if "@" in word)
    return [word for word in words if 3 <= len(word) <= LONGEST and word.isprintable()][:MOST_NAMES]  # noqa: PLR2004  a@b


def _letter(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    return chr(number) if number <= 0x10FFFF else found[0]  # noqa: PLR2004  the last code point
