"""What a site can be set to. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta

from weir.ratelimit.models import (
    ALWAYS_REFUSING,
    LONGEST_GRACE,
    MOST_REFUSING,
    MOST_SLOTS,
    REFUSING_FROM,
    REFUSING_TO,
    SHORTEST_GRACE,
)


def check_settings(burst: int | None, max_concurrency: object, grace: object) -> None:
    """Raise ValueError for what no site can have; what is no number, and no time, is left to others."""
    for name, value in (("burst", burst), ("max_concurrency", max_concurrency)):
        if isinstance(value, int) and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}.")
    if burst is not None and burst > MOST_SLOTS:
        raise ValueError(f"burst must be at most {MOST_SLOTS}, not {burst}.")
    if isinstance(grace, timedelta) and not SHORTEST_GRACE <= grace <= LONGEST_GRACE:
        raise ValueError(f"grace must be between 15 ms and one day, not {grace}.")


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
