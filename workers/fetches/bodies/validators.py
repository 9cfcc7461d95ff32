"""Validators: by which a site tells whether an earlier result of a URL still holds (RFC 9110, section 8.8)."""

import re
from dataclasses import dataclass
from typing import Final

LONGEST_VALIDATOR: Final = 4_096  # bytes
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Validators:
    """The last good result of a URL, and the headers that let its site tell whether the result still holds."""

    fetch_id: int
    etag: str  # bytes as Latin-1, one character for each byte; so is `last_modified`
    last_modified: str

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that a request sends. Each value is sent byte by byte as it came, or not at all."""
        named = ((b"If-None-Match", echo(self.etag)), (b"If-Modified-Since", echo(self.last_modified)))
        return [(name, value) for name, value in named if value]


def echo(value: str) -> bytes:
    """Return a validator's bytes, from Latin-1; empty if they cannot be sent in a header, or would mean something else.

    A control character would end the header, or be read as another byte. `If-None-Match: *` asks whether there is any
    version of the page. Servers refuse long headers.
    """
    try:
        raw = value.encode("latin-1")
    except UnicodeEncodeError:
        return b""
    is_odd = len(raw) > LONGEST_VALIDATOR or _CONTROL.search(raw) or raw.strip(b" \t") in {b"", b"*"}
    return b"" if is_odd else raw
