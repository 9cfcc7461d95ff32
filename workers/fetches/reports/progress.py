"""Progress: how far the fetches with certain ids are. One query reads this, however many ids there are."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from psycopg.types.multirange import Int8Multirange
from psycopg.types.range import Range

from weir.conf.texts.rates import rate_text
from weir.postgres.statements import Statement


class ProgressRow(NamedTuple):
    """One of the sites with most unfinished fetches, and the totals of all; the name is None if all have ended."""

    done: int
    failed: int
    cancelled: int
    unfinished: int
    sites: int  # sites with unfinished fetches
    name: str | None
    interval: timedelta
    written_rate: str
    state: str
    error: str
    last_queued: int | None
    site_unfinished: int
    site_ended: int


class EndedCount(NamedTuple):
    """How many fetches ended with this state and status code; `was_tried`: with at least one attempt."""

    state: str
    status_code: int | None
    was_tried: bool
    fetches: int


class FailedFetch(NamedTuple):
    """The URL of a fetch that failed, and why it did."""

    url: str
    error: str


ENDINGS = Statement("endings", row=EndedCount, commits=False)
FAILURES = Statement("failures", row=FailedFetch, commits=False)
PROGRESS = Statement("progress", row=ProgressRow, commits=False)


@dataclass(kw_only=True, slots=True)
class FetchIds:
    """Ids of fetches, kept as ranges: the ids of fetches that were queued together mostly follow each other."""

    ranges: list[tuple[int, int]] = field(default_factory=list)  # both ends included; ascending, apart

    @property
    def count(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def add(self, ids: Iterable[int]) -> None:
        """Add ids; ids that are there already change nothing."""
        ranges: list[tuple[int, int]] = []
        for low, high in sorted([*self.ranges, *((fetch_id, fetch_id) for fetch_id in ids)]):
            if ranges and low <= ranges[-1][1] + 1:
                ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
            else:
                ranges.append((low, high))
        self.ranges = ranges

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statements: `ids`, `first` and `last`."""
        return {
            "ids": Int8Multirange(Range(low, high, "[]") for low, high in self.ranges),
            "first": min((low for low, _ in self.ranges), default=0),
            "last": max((high for _, high in self.ranges), default=0),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteProgress:
    """How far the fetches of one site are."""

    site: str
    rate: str  # as it was written, if a rate was written
    interval: timedelta
    state: str  # busy, paused, backed off, resting, unreachable
    error: str  # why the site's fetches wait: an attempt failed, or the site or robots.txt cannot be reached; or ""
    last_queued: int | None  # the queued fetch that was asked for last
    unfinished: int
    ended: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far the fetches are, at one moment. The numbers do not include fetches that purge deleted meanwhile."""

    done: int
    failed: int
    cancelled: int
    unfinished: int
    unfinished_sites: int
    busiest: tuple[SiteProgress, ...]  # the sites with most unfinished fetches


def progress(ids: FetchIds, *, most_sites: int = 0) -> Progress:
    """Return how far the fetches are now, with the `most_sites` sites that have most unfinished ones."""
    rows = PROGRESS(**ids.parameters(), most=most_sites)
    total = rows[0]
    return Progress(
        done=total.done,
        failed=total.failed,
        cancelled=total.cancelled,
        unfinished=total.unfinished,
        unfinished_sites=total.sites,
        busiest=tuple(
            SiteProgress(
                site=row.name,
                rate=rate_text(row.interval, row.written_rate),
                interval=row.interval,
                state=row.state,
                error=row.error,
                last_queued=row.last_queued,
                unfinished=row.site_unfinished,
                ended=row.site_ended,
            )
            for row in rows
            if row.name is not None
        ),
    )


def endings(ids: FetchIds) -> list[EndedCount]:
    """Return how fetches have ended, the most frequent ending first."""
    return ENDINGS(**ids.parameters())


def failures(ids: FetchIds, most: int | None = None) -> list[FailedFetch]:
    """Return the first `most` fetches that failed, or all of them."""
    return FAILURES(**ids.parameters(), most=most)
