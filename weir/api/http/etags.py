"""ETags: a program that changes something names the version that it has seen, so that no change is lost."""

import re
from collections.abc import Mapping
from typing import Final

from weir.api.http.problems import CHANGED, IF_MATCH_NEEDED, MALFORMED, Problem
from weir.workers.audit.acting import version

ANY: Final = "*"
_TAGS: Final = re.compile(r'\s*"([0-9a-f]{1,64})"\s*', re.ASCII)


def etag(state: Mapping[str, object]) -> str:
    """Return the ETag of a state, as the header has it."""
    return f'"{version(state)}"'


def require(if_match: str, state: Mapping[str, object] | None) -> str | None:
    """Return the version that is to be changed. The change itself compares it once more, under its lock.

    None if any version may be changed: `If-Match: *`. Something that does not exist (`state` is None) needs no header,
    and must not exist when it is created. Raises Problem: 428 without the header, 400 if it has
    something that is not an ETag, 412 if the version is another one, or the thing is gone.
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
