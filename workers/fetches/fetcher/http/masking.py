"""Masks the secrets and tokens of a request in what its site answers, which is stored: some sites repeat them."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from weir.conf.texts.request_headers import ENCODINGS, Named

SHORTEST: Final = 8  # characters of a secret that is looked for: a shorter one may stand there by chance
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
    """Return a text about the answer, such as an error, with placeholders for the secrets."""
    return _masked(text.encode(), _found(secrets)).decode() if secrets else text


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
    in_hex = text.encode().hex()
    return {text, quote(text, safe=""), quote(text), text.rstrip("="), in_hex, in_hex.upper()}


def _masked(value: bytes, found: Iterable[tuple[bytes, bytes]]) -> bytes:
    for text, placeholder in found:
        value = value.replace(text, placeholder)
    return value
