"""ETags: a program that changes something names the version that it has seen, so that it overwrites no other change.

A version is of the state, not of the bytes of an answer. So a tag also names its version after a proxy or a middleware
has compressed the answer, and made the tag weak (`W/"..."`) or longer (`"...-gzip"`).
"""

import re
from typing import Final

from weir.api.http.problems import CHANGED, IF_MATCH_NEEDED, MALFORMED, Problem

ANY: Final = "*"
_TAG: Final = r'(W/)?"[!#-~\x80-\xff]*"'  # RFC 9110, section 8.8.3; of lists, section 5.6.1
PATTERN: Final = rf"^(\*|[ \t,]*{_TAG}([ \t]*,[ \t,]*{_TAG})*[ \t,]*)?$"
_TAGS: Final = re.compile(PATTERN)
_VERSION: Final = re.compile(r'"([^"]*?)(?:-[a-z]+)?"')


def etag(version: str) -> str:
    """Return the ETag of a version, as the ETag header contains it."""
    return f'"{version}"'


def seen_if_required(if_match: str, current: str, *, exists: bool) -> str | None:
    """Return the version that the change must find. The change itself compares the version once more, under its lock.

    `current` is the version that the thing has. Returns None if it may find any: `If-Match: *`. To
    create something that does not exist, a request needs no header, and the thing must still not exist when it is
    created. Raises Problem: 428 without the header, 400 if the header contains something that is not an ETag, 412 if
    the thing has another version or is gone.
    """
    if not if_match:
        if exists:
            raise Problem(IF_MATCH_NEEDED, "It exists: send the ETag that you have seen in If-Match.")
        return current
    versions = _versions(if_match)
    if not exists:
        raise Problem(CHANGED, "It is not there any more, or never was: leave If-Match out to create it.")
    return _among(versions, current)


def seen_if_given(if_match: str, current: str) -> str | None:
    """Do the same for a change that needs no header: without one, it may change any version."""
    return _among(_versions(if_match), current) if if_match else None


def _versions(if_match: str) -> list[str]:
    """Return the versions that the header names; none stands for any. Raises Problem: 400 for anything else."""
    if if_match.strip() == ANY:
        return []
    if not _TAGS.fullmatch(if_match.strip()):
        raise Problem(MALFORMED, "If-Match must be an ETag that this API gave out, in its quotation marks.")
    return _VERSION.findall(if_match)


def _among(versions: list[str], current: str) -> str | None:
    if versions and current not in versions:
        raise Problem(CHANGED, "It was changed since you have seen it: get it again.", {"ETag": etag(current)})
    return current if versions else None
