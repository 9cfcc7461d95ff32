"""Cursors: the place where a page of a list ends, as a text that a link or a client sends back.

A query finds the next page through the values of the columns that sort the list (keyset paging). So the hundredth page
costs as much as the first, and rows that are added or deleted meanwhile move no other row to another page.
"""

import base64
import binascii
import json
from collections.abc import Sequence


class BadCursor(ValueError):
    """The text is not a cursor of this list."""

    def __init__(self) -> None:
        super().__init__("The cursor does not belong to this list: leave it out to begin at its top.")


def encode(values: Sequence[object]) -> str:
    """Return the values of a page's last row, which are numbers, texts or None, as one text for URLs."""
    return base64.urlsafe_b64encode(json.dumps(list(values), separators=(",", ":")).encode()).decode().rstrip("=")


def decode(cursor: str) -> list[object]:
    """Return the values in a cursor: numbers, texts that PostgreSQL can store, and None. Raises BadCursor.

    The list must check whether their number and types are those of its own cursors.
    """
    try:
        values = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise BadCursor from error
    if not isinstance(values, list) or not all(map(_is_value, values)):
        raise BadCursor
    return values


def _is_value(value: object) -> bool:
    if isinstance(value, str):
        return is_text(value)
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def is_text(value: str) -> bool:
    """Return whether PostgreSQL can store the text; any client may have written the cursor."""
    return "\0" not in value and value.encode(errors="replace").decode() == value
