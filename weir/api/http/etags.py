"""ETags: a program that changes something names the version that it has seen, so that it overwrites no other change."""

import re
from collections.abc import Mapping
from typing import Final

from weir.api.http.problems import CHANGED, IF_MATCH_NEEDED, MALFORMED, Problem
from weir.workers.audit.acting import version

ANY: Final = "*"
_TAGS: Final = re.compile(r'\s*"([0-9a-f]{1,64})"\s*', re.ASCII)


def etag(state: Mapping[str, object]) -> str:
    """Return the ETag of a state, as the ETag header contains it."""
    return f'"{version(state)}"'


def require(if_match: str, state: Mapping[str, object] | None) -> str | None:
    """Return the version that the request may change. The change itself compares the version once more, under its lock.

    Returns None if the request may change any version: `If-Match: *`. To create something that does not exist (`state`
    is None), a request needs no header, and the thing must still not exist when it is created. Raises Problem: 428
    without the header, 400 if the header contains something that is not an ETag, 412 if the thing has another version
    or is gone.
    """
    current = version(state)
    if not if_match:
        if state is not None:
            raise Problem(IF_MATCH_NEEDED, "It exists: send the ETag that you have seen in If-Match.")
        return current
    if state is None:
        raise Problem(CHANGED, "It is not there any more, or never was: leave If-Match out to create it.")
    if if_match.strip() == ANY:
        return None
    tags = [_TAGS.fullmatch(text) for text in if_match.split(",")]
    named = [tag[1] for tag in tags if tag]
    if len(named) < len(tags):
        raise Problem(MALFORMED, "If-Match must be an ETag that this API gave out, in its quotation marks.")
    if current not in named:
        raise Problem(CHANGED, "It was changed since you have seen it: get it again.", {"ETag": etag(state)})
    return current
