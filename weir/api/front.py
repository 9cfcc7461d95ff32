"""What the API adds to the limits that hold in front of Django for all requests (`project.front`).

The body of a request without an Authorization header is not read at all, any other up to MOST_BYTES. Refusals are
problems, as everywhere in the API.
"""

from collections.abc import Mapping
from typing import Final

from weir.api.answers import HEADERS, is_of_api
from weir.api.http.problems import BY_STATUS, MEDIA_TYPE, SLOW_BODY, TOO_LARGE_HEAD, Problem

MOST_BYTES: Final = 2 * 1024 * 1024
_KINDS: Final = BY_STATUS | {kind.status: kind for kind in (SLOW_BODY, TOO_LARGE_HEAD)}


def most_bytes(path: str, headers: Mapping[bytes, bytes]) -> int | None:
    """Return how many bytes of a request's body are read; None if the request is not for the API."""
    if not is_of_api(path):
        return None
    return MOST_BYTES if b"authorization" in headers else 0


def problem(path: str, status: int, sentence: str) -> tuple[dict[str, str], bytes] | None:
    """Return the headers and the body of a refusal; None if it is not one of the API's."""
    if not is_of_api(path) or (kind := _KINDS.get(status)) is None:
        return None
    return {"Content-Type": MEDIA_TYPE, **HEADERS}, Problem(kind, sentence).body()
