"""Masks the secrets and tokens of a request in what its site answers, which is stored: some sites repeat them."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from html import unescape
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

from weir.conf.texts.request_headers import ENCODINGS, Named

SHORTEST: Final = 8  # characters of a secret that is looked for: a shorter one may stand there by chance
ROUNDS: Final = 3  # how often a text is decoded: a URL in a URL in JSON
_ESCAPE: Final = re.compile(r"\\u00([0-9a-fA-F]{2})|\\(.)")  # in JSON, and in Python's repr
_BASE64: Final = re.compile(r"[\w+/-]{12,}", re.ASCII)
COUNTED_WITH: Final = frozenset({b"content-length"})

Secrets = Mapping[Named, str]
Headers = tuple[tuple[bytes, bytes], ...]


def masked(headers: Iterable[tuple[bytes, bytes]], secrets: Secrets) -> Headers:
    """Return the headers with placeholders for the secrets, in each encoding in which a request may have had them."""
    if not (found := _found(secrets)):
        return tuple(headers)
    return tuple(
        (_masked(name, found), value if name.lower() in COUNTED_WITH else _masked(value, found))
        for name, value in headers
    )


def masked_text(text: str, secrets: Secrets) -> str:
    """Return a text about the answer, such as an error, with placeholders for the secrets, and for parts of them.

    A part is SHORTEST characters or more; what follows it in the text is left out.
    """
    if not secrets:
        return text
    found = _found(secrets)
    shown = _masked(text.encode(), found)
    for form, placeholder in found:
        parts = {form[start : start + SHORTEST] for start in range(len(form) - SHORTEST + 1)}
        if places := [place for part in parts if (place := shown.find(part)) >= 0]:
            shown = shown[: min(places)] + placeholder
    return shown.decode(errors="replace")


def _found(secrets: Secrets) -> list[tuple[bytes, bytes]]:
    """Return what is looked for, and what takes its place: the longest first, as one may be a part of another."""
    found = {}
    for named, text in secrets.items():
        for encoding, encoded in ENCODINGS.items():
            placeholder = named.written(encoding).encode()
            for form in _forms(encoded(text)):
                if len(form) >= SHORTEST:
                    found[form.encode()] = placeholder
    return sorted(found.items(), key=lambda each: len(each[0]), reverse=True)


def _forms(text: str) -> set[str]:
    """Return how sites write a text: as it is, as a part of a URL, in hexadecimal digits, without Base64's padding."""
    in_hex, in_url = text.encode().hex(), text.replace("+", "-").replace("/", "_")
    return {text, quote(text, safe=""), quote(text), text.rstrip("="), in_url.rstrip("="), in_hex, in_hex.upper()}


def _masked(value: bytes, found: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the value with placeholders; one that has a secret in a form of its own becomes the placeholder whole."""
    for text, placeholder in found:
        value = value.replace(text, placeholder)
    for reading in _readings(value.decode("latin-1")):
        for text, placeholder in found:
            if text in reading:
                return placeholder
    return value


def _readings(text: str) -> Iterator[bytes]:
    """Yield what a text says once it is decoded, as often as texts are encoded."""
    for of_url in (unquote, unquote_plus):
        decoded = text
        for _ in range(ROUNDS):
            yield from _in_base64(decoded)
            before, decoded = decoded, _ESCAPE.sub(_character, unescape(of_url(decoded)))
            if decoded == before:
                break
            yield decoded.encode(errors="replace")


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]


def _in_base64(text: str) -> Iterator[bytes]:
    for word in _BASE64.findall(text):
        with suppress(binascii.Error):
            yield base64.urlsafe_b64decode(word.replace("+", "-").replace("/", "_") + "=" * (-len(word) % 4))
