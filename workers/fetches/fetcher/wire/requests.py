"""Requests: the head of a request in HTTP/1.1, made before its slot comes. Pure."""

import re
from collections.abc import Iterable

_AUTHORITY = re.compile(r"[!-~]+", re.ASCII)
_TARGET = re.compile(r"/[!-~]*", re.ASCII)  # nothing that could end the line, or begin another one
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


class UnsendableRequest(ValueError):
    """The request cannot be written in HTTP; the message says why. It never will be, if that `is_permanent`."""

    def __init__(self, reason: str, *, is_permanent: bool = True) -> None:
        super().__init__(reason)
        self.is_permanent = is_permanent


def request_head(
    method: str, authority: str, target: str, headers: Iterable[tuple[bytes, bytes]], *, by_proxy: bool = False
) -> bytes:
    """Return the head of a request for this target, which is sent unchanged, to this host (and port).

    With `by_proxy`, it is for a proxy, which needs the whole URL (RFC 9112, 3.2.2).
    Raises UnsendableRequest if the target, the host or a header has a character that is not allowed there.
    """
    if not _TARGET.fullmatch(target) or not _AUTHORITY.fullmatch(authority):
        raise UnsendableRequest("the URL has a character that cannot be sent")
    whole = f"http://{authority}{target}" if by_proxy else target
    return _head(f"{method} {whole} HTTP/1.1\r\nHost: {authority}\r\n", headers)


def tunnel_head(host: str, port: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of a request for a tunnel to this host (RFC 9110, 9.3.6)."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return _head(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n", headers)


def _head(begin: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [begin.encode("ascii")]
    for field, value in headers:
        if not _NAME.fullmatch(field) or not _VALUE.fullmatch(value):
            raise UnsendableRequest(f"the URL's request has a header that cannot be sent: {field!r}")
        lines.append(b"%b: %b\r\n" % (field, value))
    return b"".join([*lines, b"\r\n"])
