"""Checks the parameters of requests, because any client can send anything."""

import json
from typing import Any, Final

from django.http import HttpRequest

MOST_IDS: Final = 1_000  # ids in one request
MOST_SHOWN: Final = 100  # notifications of a page
SHOWN: Final = 20
MOST_ID: Final = 2**63 - 1


class BadInput(Exception):
    """The request cannot be answered; the message says what is wrong with it."""


def ids(request: HttpRequest) -> list[int]:
    """Return the ids in a request's body such as `{"ids": [1, 2]}`. Raises BadInput."""
    if request.content_type != "application/json":
        raise BadInput("The body must be application/json.")
    try:
        asked: Any = json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is not JSON.") from error
    found = asked.get("ids") if isinstance(asked, dict) else None
    if not isinstance(found, list) or len(asked) != 1:
        raise BadInput('The body must be like {"ids": [1, 2]}.')
    if len(found) > MOST_IDS:
        raise BadInput(f"There must be {MOST_IDS:,} ids at most.")
    if not all(type(one) is int and 0 < one <= MOST_ID for one in found):
        raise BadInput("Each of the ids must be a whole number, as /page/ has them.")
    return found


def before(request: HttpRequest) -> int | None:
    """Return the id before which a page ends; None for the newest page. Raises BadInput."""
    text = request.GET.get("before")
    return None if text is None else _number("before", text, MOST_ID)


def limit(request: HttpRequest) -> int:
    """Return how many notifications a page may have. Raises BadInput."""
    return _number("limit", request.GET.get("limit", str(SHOWN)), MOST_SHOWN)


def unread_only(request: HttpRequest) -> bool:
    """Return whether only unread notifications are asked for. Raises BadInput."""
    text = request.GET.get("unread", "0")
    if text not in {"0", "1"}:
        raise BadInput("unread must be 0 or 1.")
    return text == "1"


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 0 < int(text) <= most):
        raise BadInput(f"{name} must be a whole number from 1 to {most}.")
    return int(text)
