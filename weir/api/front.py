"""The API's additions to the limits that apply to all requests before Django handles them (`project.front`).

The body of a request without an Authorization header is not read at all; the body of any other request is read up to
MOST_BYTES. Refusals are problems, as everywhere in the API.
"""

from collections.abc import Mapping
from typing import Final

from weir.api.answers import HEADERS, is_of_api
from weir.api.http.problems import BY_STATUS, MEDIA_TYPE, SLOW_BODY, TOO_LARGE_HEAD, Problem

MOST_BYTES: Final = 2 * 1024 * 1024
_KINDS: Final = BY_STATUS | {kind.status: kind for kind in (SLOW_BODY, TOO_LARGE_HEAD)}


def most_bytes(path: str, headers: Mapping[bytes, bytes]) -> int | None:
    """Return how many bytes of a request's body are read at most; None if the request is not for the API."""
    if not is_of_api(path):
        return None
    return MOST_BYTES if b"authorization" in headers else 0


def problem(path: str, status: int, sentence: str) -> tuple[dict[str, str], bytes] | None:
    """Return a refusal's headers and body; None if the path is not the API's, or if no problem has this status."""
    if not is_of_api(path) or (kind := _KINDS.get(status)) is None:
        return None
    return {"Content-Type": MEDIA_TYPE, **HEADERS}, Problem(kind, sentence).body()
