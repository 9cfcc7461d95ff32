"""What a site can be told: for how long it is left alone, and what refuses there. Pure."""

from collections.abc import Collection
from datetime import datetime

from weir.ratelimit.models import ALWAYS_REFUSING, MOST_REFUSING, REFUSING_FROM, REFUSING_TO


def check_stated(seconds: float | None, until: datetime | None) -> None:
    """Raise ValueError for a time for which no site can be left alone, and for two times."""
    if seconds is not None and until is not None:
        raise ValueError("A back-off takes seconds or until, not both.")
    if seconds is not None and not seconds >= 0:  # nan, too
        raise ValueError(f"seconds must be a number, not negative, but is {seconds}.")


def usable_refusing(statuses: Collection[int]) -> list[int]:
    """Return the statuses that are to refuse at a site, in order, with those that always do. Raises ValueError."""
    usable = sorted({*statuses, *ALWAYS_REFUSING})
    if not REFUSING_FROM <= usable[0] <= usable[-1] <= REFUSING_TO:
        raise ValueError(f"refusing must be statuses from {REFUSING_FROM} to {REFUSING_TO}, not {usable}.")
    if len(usable) > MOST_REFUSING:
        raise ValueError(f"refusing must be at most {MOST_REFUSING} statuses, not {len(usable)}.")
    return usable
