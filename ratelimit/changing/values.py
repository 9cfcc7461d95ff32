"""Checks values that are given for a site: the time of a back-off, the statuses that refuse, and its network."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from weir.conf import settings
from weir.conf.texts.site_network import PROXY, proxy_parts, usable_network
from weir.ratelimit.models import ALWAYS_REFUSING, MOST_REFUSING, REFUSING_FROM, REFUSING_TO


def check_stated(seconds: float | None, until: datetime | None) -> None:
    """Raise ValueError if `seconds` cannot be the length of a back-off, or if both times are given."""
    if seconds is not None and until is not None:
        raise ValueError("A back-off takes seconds or until, not both.")
    if seconds is not None and not seconds >= 0:  # nan, too
        raise ValueError(f"seconds must be a number, not negative, but is {seconds}.")


def allowed_network(network: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return how a site is reached, as it is stored. Raises ValueError, also for a proxy that no setting allows."""
    usable = usable_network(network)
    if (url := usable.get(PROXY)) and (place := proxy_parts(url).place) not in settings.WEIR_FETCH_PROXIES:
        raise ValueError(f"network must have a proxy that WEIR_FETCH_PROXIES allows: add {place} there first.")
    return usable


def usable_refusing(statuses: Collection[int]) -> list[int]:
    """Return the statuses that count as refusals at a site, sorted, with ALWAYS_REFUSING. Raises ValueError."""
    usable = sorted({*statuses, *ALWAYS_REFUSING})
    if not REFUSING_FROM <= usable[0] <= usable[-1] <= REFUSING_TO:
        raise ValueError(f"refusing must be statuses from {REFUSING_FROM} to {REFUSING_TO}, not {usable}.")
    if len(usable) > MOST_REFUSING:
        raise ValueError(f"refusing must be at most {MOST_REFUSING} statuses, not {len(usable)}.")
    return usable
