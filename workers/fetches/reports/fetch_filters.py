"""Fetch filters: which fetches a list is to have, read from texts. The error for a wrong filter says what is wrong."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from django.db.models import Q

from weir.conf.texts.moments import EARLIEST, parse_moment
from weir.conf.texts.suggestions import no_such_word
from weir.ratelimit import site_names
from weir.ratelimit.models import PAUSED_FOREVER, Site
from weir.ratelimit.sites import unknown_site
from weir.workers import cursors
from weir.workers.fetches.batches.counts import UnknownBatch, id_of
from weir.workers.fetches.models import FINAL, FetchState

NAMES = ("state", "site", "error", "status", "url", "since", "until", "batch", "share", "reference")
LONGEST_TEXT = 8_000  # characters: the longest URL
SMALLEST_STATUS, LARGEST_STATUS = 100, 999
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII | re.IGNORECASE)


class UrlMatch(StrEnum):
    """How URLs match the text of a filter."""

    EXACT = "exact"
    BEGINNING = "beginning"
    PART = "part"  # in upper or lower case; no index serves it


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which fetches are meant: those that meet all of these conditions."""

    states: frozenset[str] = frozenset()  # empty: any state
    site: int | None = None
    error: str = ""  # what the error contains, or begins with if this ends with *, in upper or lower case
    status: int | None = None
    url: str = ""
    url_match: UrlMatch = UrlMatch.EXACT
    since: datetime | None = None  # the fetch ended between `since` and `until`
    until: datetime | None = None
    batch: int | None = None
    share: str = ""
    reference: str = ""

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
            meant &= url_like(self.url, self.url_match)
        if self.batch is not None:
            meant &= Q(batch=self.batch)
        if self.share:
            meant &= Q(share=self.share)
        if self.reference:
            meant &= Q(reference=self.reference)
        if self.is_timed:
            meant &= Q(finished_at__range=(self.since or EARLIEST, self.until or PAUSED_FOREVER))
        return meant


def error_like(text: str) -> Q:
    """Return the condition that the error contains the text, or begins with it if it ends with `*`."""
    return Q(error__istartswith=text.rstrip("*")) if text.endswith("*") else Q(error__icontains=text)


def url_like(text: str, match: UrlMatch) -> Q:
    """Return the condition that the URL is, begins with, or contains the text."""
    lookups = {UrlMatch.EXACT: "exact", UrlMatch.BEGINNING: "startswith", UrlMatch.PART: "icontains"}
    return Q(**{f"url__{lookups[match]}": text})


def read(texts: Mapping[str, Iterable[str]], now: datetime) -> Filters:
    """Read the filters of a query string: `state` any number of times, any other name once; "" counts as left out.

    A `url` that ends with `*` is the beginning of URLs; one without a scheme, such as `shop.example/tea`, or after a
    `*`, is a part of URLs. `since` and `until` are times in ISO format, or how long ago: 2h. Raises ValueError for a
    wrong filter, UnknownSite for a site that is not there.
    """
    given = {name: [_checked(name, text) for text in of_name if text] for name, of_name in texts.items()}
    for name in given:
        if name not in NAMES:
            raise ValueError(no_such_word(name, NAMES, "filter"))
    states = frozenset(_state(text) for text in given.pop("state", []))
    once = {name: _once(name, values) for name, values in given.items() if values}
    url, url_match = _url(once.get("url", ""))
    return Filters(
        states=states,
        site=_site(once["site"]) if "site" in once else None,
        error=once.get("error", ""),
        status=_status(once["status"]) if "status" in once else None,
        url=url,
        url_match=url_match,
        since=parse_moment("since", once["since"], now) if "since" in once else None,
        until=parse_moment("until", once["until"], now) if "until" in once else None,
        batch=_batch(once["batch"]) if "batch" in once else None,
        share=once.get("share", ""),
        reference=once.get("reference", ""),
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


def _batch(name: str) -> int:
    try:
        return id_of(name)
    except UnknownBatch as error:
        raise ValueError(str(error)) from error


def _url(text: str) -> tuple[str, UrlMatch]:
    if not _SCHEME.match(text):
        return text.strip("*"), UrlMatch.PART
    return text.removesuffix("*"), UrlMatch.BEGINNING if text.endswith("*") else UrlMatch.EXACT


def _status(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) == len(str(LARGEST_STATUS))
    if not (is_number and SMALLEST_STATUS <= int(text) <= LARGEST_STATUS):
        raise ValueError(f"status must be a number from {SMALLEST_STATUS} to {LARGEST_STATUS}, not {text!r}.")
    return int(text)
