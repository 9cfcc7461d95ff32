"""Requests: the bytes of a request in HTTP/1.1, made before its slot comes. Pure."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

DEFAULT_PORTS = {"http": 80, "https": 443}
_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\[\]:/?#@]+)(?::([0-9]{1,5}))?", re.ASCII)
_TARGET = re.compile(r"[!-~]*", re.ASCII)  # nothing that could end the line, or begin another one
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


class UnsendableRequest(ValueError):
    """The request cannot be written in HTTP; the message says why."""


class Origin(NamedTuple):
    """Where a URL is requested."""

    scheme: str
    host: str  # a name, or an address without brackets
    port: int
    name: str  # as the header Host has it


@lru_cache(maxsize=50_000)
def origin(text: str) -> Origin:
    """Return the parts of `scheme://host:port`; raises UnsendableRequest for what is none."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        raise UnsendableRequest(f"{text!r} is not the origin of a URL in normal form")
    scheme, host, port = found.groups()
    return Origin(scheme, host.strip("[]"), int(port or DEFAULT_PORTS[scheme]), text.partition("//")[2])


def request(name: str, target: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a GET of this target at the host of this name.

    `target` is what stands behind the origin in a URL, as it is given. Raises UnsendableRequest where it, or a header,
    has a character that may not stand there.
    """
    if not _TARGET.fullmatch(target):
        raise UnsendableRequest("the URL has a character that cannot be sent")
    lines = [f"GET {target or '/'} HTTP/1.1\r\nHost: {name}\r\n".encode("ascii")]
    for field, value in headers:
        if not _VALUE.fullmatch(value):
            raise UnsendableRequest(f"the header {field.decode()} has a character that cannot be sent")
        lines.append(b"%b: %b\r\n" % (field, value))
    return b"".join([*lines, b"\r\n"])
