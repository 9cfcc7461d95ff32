"""Parses an e-mail that a stranger wrote. The time grows only with the e-mail's length, whatever the e-mail holds.

Python's parser reads the fields. It is not used for parameters and parts, because it has no bounds there: it takes
hours for a million parameters, and runs out of stack for deeply nested parts. This module finds parameters and parts
itself: it reads a bounded number of fields and parts, and each byte at most once per level of nesting.
"""

import binascii
import quopri
import re
from base64 import b64decode
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from itertools import islice

# Bytes that are read. The report and the returned header stand at the beginning; after them stands the content of our
# own e-mail, such as an attachment.
LOOKED_AT = 1_048_576
_MOST_FIELDS = 1_000  # of a header
_LONGEST_VALUE = 16_384  # characters of a field
_DEEPEST = 8  # levels of nested parts: a report has two, a forwarded report some more
_MOST_PARTS = 100
_OLD_COLON = re.compile(r"^([!-9;-~]{1,100})[ \t]{1,10}:", re.MULTILINE)  # `Subject :` (RFC 5322, 4.5)
_BOUNDARY = re.compile(r';\s{0,100}boundary\s{0,10}=\s{0,10}(?:"([^"]{1,100})"|([^\s;"]{1,100}))', re.IGNORECASE)
_FIELDS = HeaderParser()
_JUNK = re.compile(rb"[^A-Za-z0-9+/=]")


@dataclass(frozen=True, slots=True)
class MimePart:
    """An e-mail, or a part of an e-mail: its header, and the content after the header."""

    fields: dict[str, list[str]]  # by lower-case field name; each value is on one line
    content: bytes = field(repr=False)  # still encoded for transmission; lines end with a line feed
    depth: int = 0

    def first(self, name: str) -> str:
        """Return the value of the first field with this name; an empty string if there is no such field."""
        return self.fields.get(name, [""])[0]

    @property
    def kind(self) -> str:
        """The type of the content, in lower case."""
        return self.first("content-type").partition(";")[0].strip().lower() or "text/plain"

    @property
    def decoded(self) -> bytes:
        """The content, decoded from base64 or quoted-printable; unchanged if it cannot be decoded."""
        encoding = self.first("content-transfer-encoding").strip().lower()
        try:
            if encoding == "base64":
                letters = _JUNK.sub(b"", self.content)
                return one_line_end(b64decode(letters[: len(letters) // 4 * 4]))
            if encoding == "quoted-printable":
                return one_line_end(quopri.decodestring(self.content))
        except (binascii.Error, ValueError):
            pass
        return self.content

    @property
    def text(self) -> str:
        """The content as text. Its charset is ignored: callers look only for ASCII, or for an address in UTF-8."""
        return as_text(self.decoded)

    def parts(self) -> Iterator["MimePart"]:
        """Yield this part and the parts in it, but not the parts of a returned e-mail, which may be a report itself."""
        waiting, count = [self], 0
        while waiting and count < _MOST_PARTS:
            part = waiting.pop(0)
            count += 1
            yield part
            if part.depth < _DEEPEST:
                waiting[:0] = part._inner(_MOST_PARTS - count)  # noqa: SLF001  the same class

    def _inner(self, most: int) -> list["MimePart"]:
        """Return the parts that the boundary of a multipart divides its content into."""
        found = (
            _BOUNDARY.search(self.first("content-type")[:_LONGEST_VALUE]) if self.kind[:10] == "multipart/" else None
        )
        if found is None:
            return []
        boundary = (found[1] or found[2]).strip().encode()
        pieces = (b"\n" + self.content).split(b"\n--" + boundary, most + 1)[1 : most + 1]
        parts = []
        for piece in pieces:
            if piece[:2] == b"--":  # after the closing boundary stands no part, but some write further parts there
                continue
            parts.append(_read(piece.partition(b"\n")[2], self.depth + 1))
        return parts


def read(content: bytes) -> MimePart:
    """Return a parsed e-mail; only its first LOOKED_AT bytes are read. Raises nothing."""
    content = one_line_end(content[:LOOKED_AT]).removeprefix(BOM_UTF8).lstrip(b"\n")
    if content[:5] == b"From ":  # a line of a mailbox file
        content = content.partition(b"\n")[2]
    return _read(content, 0)


def as_text(content: bytes) -> str:
    """Return the content decoded as UTF-8. If it is not UTF-8, each byte becomes one letter (ISO 8859-1)."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def one_line_end(content: bytes) -> bytes:
    """Return the content with a line feed at each line end, because servers on the way may write any line end."""
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def fields_of(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the fields at the beginning of a text, by lower-case name, and the rest of the text."""
    found = _FIELDS.parsestr(_OLD_COLON.sub(r"\1:", text))
    fields: dict[str, list[str]] = {}
    for name, value in islice(found.raw_items(), _MOST_FIELDS):
        fields.setdefault(name.lower(), []).append(" ".join(value[:_LONGEST_VALUE].split()))
    return fields, str(found.get_payload())


def _read(content: bytes, depth: int) -> MimePart:
    """Return a part. Its header ends at the first empty line, or else with the content."""
    end = content.find(b"\n\n") if content[:1] != b"\n" else -1
    if content[:1] == b"\n" or end < 0:
        head, body = (b"", content[1:]) if content[:1] == b"\n" else (content, b"")
    else:
        head, body = content[: end + 1], content[end + 2 :]
    fields, rest = fields_of(as_text(head))
    return MimePart(fields, rest.encode() + b"\n" + body if rest else body, depth)
