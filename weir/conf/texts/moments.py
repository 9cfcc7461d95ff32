"""Times that operators write: a moment, or how long ago. Pure functions."""

from datetime import UTC, datetime
from typing import Final

from django.utils.dateparse import parse_datetime

from weir.conf.texts.rates import parse_duration

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


def parse_moment(name: str, text: str, now: datetime) -> datetime:
    """Return the moment in ISO format, of UTC if it has no zone, or the moment so long before `now`: 2h.

    `name` names the value in messages. Raises ValueError for any other text, and for years before 1970.
    """
    try:
        moment = parse_datetime(text) or now - parse_duration(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if EARLIEST <= moment <= LATEST:
            return moment
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{name} must be a time such as 2026-01-31T12:00Z, or how long ago, such as 2h, not {text!r}.")
