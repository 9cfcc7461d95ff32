"""Moments: PostgreSQL's clock, and what it stores and Python reads back."""

from datetime import UTC, datetime

from weir.postgres.statements import Statement

CLOCK = Statement("clock", returns=datetime, commits=False)


def now() -> datetime:
    """Return the time by PostgreSQL's clock, not by the beginning of a transaction. Raises database errors."""
    [now] = CLOCK()
    return now


def in_utc(name: str, moment: object) -> datetime | None:
    """Return the moment in UTC, which PostgreSQL stores and gives back, whatever its zone; None for None.

    PostgreSQL takes a year 0 or 10000, which some zones have at the ends of Python's years: no list with such a row in
    it could be read again. And it refuses zones that are 16 hours or more from UTC.

    `name` is what the caller calls it. Raises TypeError for what is no datetime; ValueError for one without a time
    zone, or outside of the years 1 to 9999 of UTC.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be an aware datetime, not {moment!r}.")
    try:
        has_zone = moment.utcoffset() is not None  # with a tzinfo, too, it may be without one
        stored = moment.astimezone(UTC)
    except (OverflowError, ValueError) as error:  # the second for a zone that is a day or more from UTC
        raise ValueError(f"{name} must be in the years 1 to 9999 of UTC, but is {moment!r}.") from error
    if not has_zone:
        raise ValueError(f"{name} must have a time zone, but is {moment!r}.")
    return stored
