"""PostgreSQL's clock, and moments that PostgreSQL can store and Python can read back."""

from datetime import UTC, datetime

from weir.postgres.statements import Statement

CLOCK = Statement("clock", returns=datetime, commits=False)


def now() -> datetime:
    """Return the time by PostgreSQL's clock, not the time when the transaction began. Raises database errors."""
    [now] = CLOCK()
    return now


def in_utc(name: str, moment: object) -> datetime | None:
    """Return the moment in UTC, whatever its zone is, so that PostgreSQL can store it and return it; None for None.

    At the ends of Python's range of years, some zones reach the year 0 or 10000 of UTC. PostgreSQL stores such a
    moment, but Python could not read any list that contains it. PostgreSQL also refuses zones that are 16 hours or more
    from UTC.

    `name` names the value in messages. Raises TypeError for a value that is not a datetime, and ValueError for a
    datetime without a time zone, or outside of the years 1 to 9999 of UTC.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be an aware datetime, not {moment!r}.")
    try:
        has_zone = moment.utcoffset() is not None  # a tzinfo may have no offset
        stored = moment.astimezone(UTC)
    except (OverflowError, ValueError) as error:  # ValueError if a zone is a day or more from UTC
        raise ValueError(f"{name} must be in the years 1 to 9999 of UTC, but is {moment!r}.") from error
    if not has_zone:
        raise ValueError(f"{name} must have a time zone, but is {moment!r}.")
    return stored
