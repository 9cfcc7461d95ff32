"""Methods: those that a fetch may have, and what a redirect makes of one (RFC 9110, 15.4). Pure."""

from typing import Final

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SAFE: Final = frozenset({"GET", "HEAD"})  # they change nothing at the site, and have no body
SAY_LENGTH: Final = frozenset({"POST", "PUT", "PATCH"})  # also without a body (RFC 9110, 8.6)
MOST_REDIRECTS: Final = 20
USUAL_REDIRECTS: Final = 10


def becomes_get(status: int, method: str) -> bool:
    """Return whether a redirect with this status turns the method into GET, as https://fetch.spec.whatwg.org/ says."""
    return (status == 303 and method not in SAFE) or (status in {301, 302} and method == "POST")  # noqa: PLR2004
