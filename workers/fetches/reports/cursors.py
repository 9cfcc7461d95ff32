"""Cursors: where the next page of a list begins, as a text that nobody needs to read."""

import base64
import binascii
import json
from collections.abc import Sequence


class WrongCursor(ValueError):
    """The cursor does not belong to this list: leave it out to begin at its top."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


def written(place: Sequence[object]) -> str:
    """Return the cursor of a place: numbers and texts."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def read(cursor: str) -> object:
    """Return what was written, or anything else that somebody made up. Raises WrongCursor for what is no cursor."""
    try:
        place: object = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise WrongCursor from error
    return place


def is_text(text: str) -> bool:
    """Tell whether PostgreSQL takes this for a text."""
    return "\0" not in text and text.encode(errors="replace").decode() == text
