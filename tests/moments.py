"""Moments that PostgreSQL stores and Python cannot read back, or values that are not moments; why each is refused."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo


class Odd(tzinfo):
    """A time zone of a user's own, which may say anything."""

    def __init__(self, offset: timedelta | None) -> None:
        self._offset = offset

    def utcoffset(self, _moment: datetime | None) -> timedelta | None:
        return self._offset

    def dst(self, _moment: datetime | None) -> None:
        return None

    def tzname(self, _moment: datetime | None) -> str:
        return "odd"


EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
YEARS, ZONE = "in the years 1 to 9999 of UTC", "must have a time zone"
REFUSED = {
    "the year 10000 of UTC": (datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST), YEARS),
    "the year 10000, by a microsecond": (
        datetime(9999, 12, 31, 23, 59, 59, 1, tzinfo=timezone(timedelta(microseconds=-999_999))), YEARS,
    ),
    "the year 0 of UTC": (datetime(1, 1, 1, tzinfo=EAST), YEARS),
    "no zone": (datetime(2030, 1, 1), ZONE),  # noqa: DTZ001  what is refused
    "a zone that says nothing": (datetime(2030, 1, 1, tzinfo=Odd(None)), ZONE),
    "a zone that is a day away": (datetime(2030, 1, 1, tzinfo=Odd(timedelta(days=1))), YEARS),
}  # fmt: skip
ACCEPTED = (
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=EAST),
    datetime(1, 1, 1, tzinfo=WEST),
    datetime(2030, 1, 1, tzinfo=Odd(timedelta(hours=23, minutes=59))),
)
