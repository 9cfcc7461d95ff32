"""What the calls that queue an effect share: the checks of what they are given, and how they find what is there."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from weir.postgres.moments import in_utc
from weir.postgres.statements import Statement
from weir.postgres.texts import storable

LONGEST_KEY = 100
LARGEST_CONTEXT = 64 * 1024  # bytes of JSON: larger data belongs in a table of the application
PRIORITIES = range(-100, 101)

DOES_OLDER_WAIT = Statement("does_older_wait", commits=False, prepare=True)
FIND = Statement("find", commits=False, prepare=True)
HAS_WORK = Statement("has_work", returns=bool, commits=False, prepare=True)


def times(
    not_before: datetime | None, expires_at: datetime | None, expires_after: timedelta | None
) -> tuple[datetime | None, ...]:
    """Return from when and until when it may begin; None for a time that depends on when it is stored.

    Raises ValueError.
    """
    try:
        due_at, ends_at = in_utc("not_before", not_before), in_utc("expires_at", expires_at)
        if due_at and not ends_at and due_at > timezone.now() and expires_after:
            ends_at = due_at + expires_after
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(str(error)) from error
    if due_at and ends_at and ends_at <= due_at:
        raise ValueError(f"expires_at must be after not_before, or it never begins: {ends_at} and {due_at}.")
    return due_at, ends_at


def check(what: str, key: str, context: Mapping[str, Any] | None, priority: int) -> None:
    """Raise ValueError for what the database cannot store, or would return changed; `what` names it: an e-mail."""
    if not 0 < len(key) <= LONGEST_KEY or storable(key, LONGEST_KEY) != key:
        raise ValueError(f"The key of {what} has 1 to {LONGEST_KEY} characters, but is {key!r}.")
    check_priority(priority)
    check_json("context", context or {}, LARGEST_CONTEXT)


def check_priority(priority: int) -> None:
    """Raise ValueError if the priority is not one of PRIORITIES."""
    if priority not in PRIORITIES:
        raise ValueError(f"The priority is {PRIORITIES[0]} to {PRIORITIES[-1]}, but is {priority!r}.")


def check_json(name: str, value: object, most: int) -> str:
    """Return the value as JSON. Raise ValueError if it is not, or has more than `most` bytes."""
    try:
        given = dict(value) if isinstance(value, Mapping) else value
        written = json.dumps(given, allow_nan=False, ensure_ascii=False)
        size = len(written.encode())  # fails for half of a surrogate pair
        is_the_same = json.loads(written) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The {name} must be JSON, such as numbers and strings: {error}.") from error
    if not is_the_same:
        raise ValueError(f"The {name} must be JSON: it has tuples, or keys that are not strings.")
    if size > most or "\\u0000" in written:
        raise ValueError(f"The {name} must have {most} bytes of JSON at most, and no NUL.")
    return written
