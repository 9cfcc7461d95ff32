"""Requests: their bytes, and what cannot stand in them."""

import pytest

from tests.cases import for_each
from weir.workers.fetches.fetcher.wire.requests import UnsendableRequest, request_head


def test_a_request_has_its_host_first() -> None:
    """Then the other headers, in their order."""
    request = request_head("GET", "site.example:81", "/a?b", [(b"User-Agent", b"Weir"), (b"Accept", b"*/*")])
    assert request == b"GET /a?b HTTP/1.1\r\nHost: site.example:81\r\nUser-Agent: Weir\r\nAccept: */*\r\n\r\n"


@for_each("inside", ["\r\n", "\n", "\0", " ", "\xe9"])
def test_nothing_that_ends_a_line_or_a_part_of_it_is_sent(inside: str) -> None:
    """Neither in the target nor in the host, whatever has let it pass."""
    for authority, target in (("site.example", f"/a{inside}b"), (f"site{inside}.example", "/a")):
        with pytest.raises(UnsendableRequest):
            request_head("GET", authority, target, [])


@for_each("inside", [b"\r\n", b"\n", b"\0"])
def test_no_header_ends_its_line(inside: bytes) -> None:
    """A site's validators are sent back to it."""
    with pytest.raises(UnsendableRequest, match="If-None-Match"):
        request_head("GET", "site.example", "/a", [(b"If-None-Match", b"a" + inside + b"b")])
