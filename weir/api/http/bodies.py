"""Bodies of requests: JSON in UTF-8 whose strings PostgreSQL can store."""

import json
from typing import Any, Final, NoReturn

from django.http import HttpRequest
from ninja.parser import Parser

from weir.api.http.problems import INVALID, MALFORMED, UNSUPPORTED_MEDIA_TYPE, Problem
from weir.workers.cursors import is_text

JSON: Final = "application/json"
MOST_NAMES: Final = 100
UNSTORABLE: Final = "Texts must be Unicode, without NUL and without halves of surrogate pairs."


class StrictParser(Parser):
    """Reads JSON as RFC 8259 defines it: each name once, no NaN, and no infinite numbers."""

    def parse_body(self, request: HttpRequest) -> Any:  # noqa: ANN401  ninja's signature
        """Return what the body says. Raises Problem."""
        if request.content_type != JSON:
            raise Problem(UNSUPPORTED_MEDIA_TYPE, f"The body is of the type {request.content_type!r}, not {JSON}.")
        try:
            found = json.loads(
                request.body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse, parse_float=_float
            )
            refuse_unstorable(found)
        except (ValueError, RecursionError) as error:
            raise Problem(MALFORMED, "The body is not JSON in UTF-8.") from error
        return found


def refuse_unstorable(value: object) -> None:
    """Raise Problem if a text in the value cannot be stored, and RecursionError if the value is nested too deeply."""
    match value:
        case str():
            if not is_text(value):
                raise Problem(INVALID, UNSTORABLE)
        case list():
            for each in value:
                refuse_unstorable(each)
        case dict():
            for name, each in value.items():
                refuse_unstorable(name)
                refuse_unstorable(each)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(pairs) > MOST_NAMES:  # otherwise each unknown name would become an entry of the answer
        raise Problem(INVALID, f"An object has more than {MOST_NAMES} names.")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _float(text: str) -> float:
    number = float(text)
    return number if abs(number) < float("inf") else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
