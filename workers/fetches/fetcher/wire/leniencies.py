"""Leniencies: heads of answers that break RFC 9112, but that browsers or curl read anyway. Pure.

docs/explanation/wire.md has a table of them and of the parser's own, with the programs that read such heads alike.

A head that the parser accepts does not come here. A head that the parser refuses is mended here, line by line, and
parsed once more. So is a head with a Transfer-Encoding in which the parser would see another end of the body than
browsers do. The connection of such an answer is not used again, so a wrong guess here harms no other fetch.
"""

import re
from collections.abc import Callable

Lines = list[tuple[bytes, bytes]]  # names and values

_LINE_END = re.compile(rb"\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1(?:\.([0-9]))?[ \t]+([0-9]{3})(?:[ \t]+(.*))?", re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Control characters become blanks, including those that end lines (RFC 9112, 2.2); the tab is allowed.
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09})
_BLANKED = bytes.maketrans(_CONTROLS, b" " * len(_CONTROLS))


def mended(head: bytes) -> bytes | None:
    """Return the head in a form that the parser accepts; None if its first line is not that of an answer."""
    first, *rest = _LINE_END.split(head.rstrip(b"\r\n"))
    found = _STATUS_LINE.fullmatch(first.strip())
    if found is None:
        return None
    minor, status, reason = found[1] or b"0", found[2], _clean(found[3] or b"")
    lines = _named(_unfolded(rest))
    for lenient in LENIENCIES:
        lines = lenient(lines)
    return b"\r\n".join([b"HTTP/1.%b %b %b" % (minor, status, reason), *(b"%b: %b" % line for line in lines), b"", b""])


def _unfolded(lines: list[bytes]) -> list[bytes]:
    """Join a line that begins with a blank to the one before it (RFC 9112, 5.2)."""
    parts: list[list[bytes]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and parts:
            parts[-1].append(line.strip())
        else:
            parts.append([line])
    return [b" ".join(line) for line in parts]


def _named(lines: list[bytes]) -> Lines:
    """Split the lines into names and values. Lines without a colon are dropped, and so are blanks before the colon."""
    pairs = (line.partition(b":") for line in lines if b":" in line)
    return [(name.strip(), _clean(value)) for name, _, value in pairs]


def _clean(value: bytes) -> bytes:
    return value.translate(_BLANKED).strip()


def _without_odd_names(lines: Lines) -> Lines:
    return [line for line in lines if _NAME.fullmatch(line[0])]


def _one_length(lines: Lines) -> Lines:
    """Merge equal values of Content-Length into one (RFC 9112, 6.3): proxies write several."""
    lengths = {part.strip() for name, value in lines if name.lower() == b"content-length" for part in value.split(b",")}
    if len(lengths) != 1:
        return lines  # if they differ, the end of the body is unknown, and the parser says so
    others = [line for line in lines if line[0].lower() != b"content-length"]
    return [*others, (b"Content-Length", lengths.pop())]


def _chunks_before_length(lines: Lines) -> Lines:
    """Drop the Content-Length of a chunked body (RFC 9112, 6.3)."""
    is_chunked = any(name.lower() == b"transfer-encoding" and b"chunked" in value.lower() for name, value in lines)
    return [line for line in lines if line[0].lower() != b"content-length"] if is_chunked else lines


def _one_transfer(lines: Lines) -> Lines:
    """Merge several lines of Transfer-Encoding into one list (RFC 9110, 5.3), without identity, which means nothing."""
    listed = b",".join(value for name, value in lines if name.lower() == b"transfer-encoding")
    codings = [coding for part in listed.split(b",") if (coding := part.strip()) and coding.lower() != b"identity"]
    others = [line for line in lines if line[0].lower() != b"transfer-encoding"]
    return [*others, (b"Transfer-Encoding", b", ".join(codings))] if codings else others


# The functions that mend the lines, in the order of their calls. The lines are split into names and values by then.
LENIENCIES: tuple[Callable[[Lines], Lines], ...] = (
    _without_odd_names,
    _one_length,
    _one_transfer,
    _chunks_before_length,
)
