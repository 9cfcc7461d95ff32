"""Fetch filters: which fetches a list is to have, read from texts. The error for a wrong filter says what is wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q
from django.utils.dateparse import parse_datetime

from weir.conf.texts.rates import parse_duration
from weir.conf.texts.suggestions import no_such_word
from weir.ratelimit import site_names
from weir.ratelimit.models import PAUSED_FOREVER, Site
from weir.ratelimit.sites import unknown_site
from weir.workers import cursors
from weir.workers.fetches.models import FINAL, FetchState

NAMES = ("state", "site", "error", "status", "url", "since", "until")
LONGEST_TEXT = 8_000  # characters: the longest URL
SMALLEST_STATUS, LARGEST_STATUS = 100, 999
EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which fetches are meant: those that meet all of these conditions."""

    states: frozenset[str] = frozenset()  # empty: any state
    site: int | None = None
    error: str = ""  # what the error contains, or begins with if this ends with *, in upper or lower case
    status: int | None = None
    url: str = ""
    is_exact: bool = True  # otherwise `url` is the beginning of URLs
    since: datetime | None = None  # the fetch ended between `since` and `until`
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.is_timed and not self.wanted:
            raise ValueError("since and until are times of an end: ask for done, failed or cancelled ones.")

    @property
    def is_timed(self) -> bool:
        return self.since is not None or self.until is not None

    @property
    def wanted(self) -> frozenset[str]:
        """Return the states that fetches may have; only final ones if `since` or `until` is given."""
        states = self.states or frozenset(state.value for state in FetchState)
        return states.intersection(FINAL) if self.is_timed else states

    def condition(self) -> Q:
        """Return all conditions, for a QuerySet that finds its fetches by ids: no index serves these conditions."""
        meant = Q(state__in=self.wanted)
        if self.site is not None:
            meant &= Q(site=self.site)
        if self.error:
            meant &= error_like(self.error)
        if self.status is not None:
            meant &= Q(status_code=self.status)
        if self.url:
            meant &= Q(url=self.url) if self.is_exact else Q(url__startswith=self.url)
        if self.is_timed:
            meant &= Q(finished_at__range=(self.since or EVER, self.until or PAUSED_FOREVER))
        return meant


def error_like(text: str) -> Q:
    """Return the condition that the error contains the text, or begins with it if it ends with `*`."""
    return Q(error__istartswith=text.rstrip("*")) if text.endswith("*") else Q(error__icontains=text)


def read(texts: Mapping[str, Iterable[str]], now: datetime) -> Filters:
    """Read the filters of a query string: `state` any number of times, any other name once; "" counts as left out.

    A `url` that ends with `*` is the beginning of URLs; `since` and `until` are times in ISO format, or how long ago:
    2h. Raises ValueError for a wrong filter, UnknownSite for a site that is not there.
    """
    given = {name: [_checked(name, text) for text in of_name if text] for name, of_name in texts.items()}
    for name in given:
        if name not in NAMES:
            raise ValueError(no_such_word(name, NAMES, "filter"))
    states = frozenset(_state(text) for text in given.pop("state", []))
    once = {name: _once(name, values) for name, values in given.items() if values}
    url = once.get("url", "")
    return Filters(
        states=states,
        site=_site(once["site"]) if "site" in once else None,
        error=once.get("error", ""),
        status=_status(once["status"]) if "status" in once else None,
        url=url.removesuffix("*"),
        is_exact=not url.endswith("*"),
        since=_time("since", once["since"], now) if "since" in once else None,
        until=_time("until", once["until"], now) if "until" in once else None,
    )


def _checked(name: str, text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{name} is longer than {LONGEST_TEXT:,} characters.")
    if not cursors.is_text(text):
        raise ValueError(f"{name} is not text in UTF-8.")
    return text


def _once(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise ValueError(f"{name} is given {len(values)} times: once is meant.")
    return values[0]


def _state(text: str) -> str:
    if text not in FetchState.values:
        raise ValueError(no_such_word(text, FetchState.values, "state"))
    return text


def _site(host: str) -> int:
    site = Site.objects.filter(name=site_names.canonical(host)).values_list("pk", flat=True).first()
    if site is None:
        raise unknown_site(host)
    return site


def _status(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) == len(str(LARGEST_STATUS))
    if not (is_number and SMALLEST_STATUS <= int(text) <= LARGEST_STATUS):
        raise ValueError(f"status must be a number from {SMALLEST_STATUS} to {LARGEST_STATUS}, not {text!r}.")
    return int(text)


def _time(name: str, text: str, now: datetime) -> datetime:
    try:
        moment = parse_datetime(text) or now - parse_duration(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if EVER <= moment <= PAUSED_FOREVER:
            return moment
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{name} must be a time such as 2026-01-31T12:00Z, or how long ago, such as 2h, not {text!r}.")
