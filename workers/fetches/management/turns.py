"""What the fetches that `manage.py fetch` watches wait for, and when their turn comes, as `fetches why` says of a few.

At a site, the fetch that was asked for last is asked about: the others of the command go before it.
"""

import math
import time
from collections.abc import Iterator, Mapping
from typing import Final

from weir.workers.cli.terminal import printable, span
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.reports.progress import Progress, SiteProgress
from weir.workers.fetches.reports.waiting_fetch import UnknownFetch
from weir.workers.fetches.reports.why import FetchBlocker, Why, why

MOST: Final = 3  # sites of which a fetch is asked about: those with most unfinished fetches
EVERY_S: Final = 5.0  # an answer takes up to five queries, and asks the broker
FROM_S: Final = 2.0  # what ends sooner is not worth a word
STOPPABLE: Final = "Ctrl-C ends only the watching: the fetches go on."


class Turns:
    """What is known of the turns, and which of it was said."""

    def __init__(self) -> None:
        self.clear_at: Mapping[str, float] = {}  # by site: when its last fetch starts, by time.monotonic()
        self.lines: tuple[str, ...] = ()
        self._look_at = time.monotonic() + FROM_S
        self._told: set[object] = set()

    def look(self, seen: Progress) -> Iterator[str]:
        """Ask anew if it is time for that; yields the lines of which a reader has not seen the like."""
        if time.monotonic() < self._look_at:
            return
        known = [(site, asked) for site in seen.busiest[:MOST] if (asked := [*_ask(site.last_queued)])]
        asked_at = time.monotonic()
        self._look_at = asked_at + EVERY_S
        self.clear_at = {site.site: asked_at + _turn_s(asked[0]) for site, asked in known}
        lines = {_gist(asked): "".join(_line(site, asked)) for site, asked in known if _is_worth_it(asked[0])}
        self.lines = tuple(lines.values())
        new = [line for gist, line in lines.items() if gist not in self._told]
        if new and not self._told:
            new.append(STOPPABLE)
        self._told.update(lines)
        yield from new


def _ask(fetch: int | None) -> Iterator[Why]:
    """Yield what the fetch waits for; and, if that is a robots.txt, what this one waits for."""
    try:
        found = why(fetch) if fetch else None
    except UnknownFetch:  # purged meanwhile
        return
    if found and found.state == FetchState.QUEUED:
        yield found
        for blocker in found.blockers:
            yield from _ask(blocker.waits_for)


def _turn_s(found: Why) -> float:
    """Return in how many seconds the fetch starts; infinity if that is not known."""
    turns = [blocker.until for blocker in found.blockers if blocker.kind == "rate" and blocker.until]
    return (turns[0] - found.now).total_seconds() if turns else math.inf


def _is_worth_it(found: Why) -> bool:
    return any(
        blocker.until is None or (blocker.until - found.now).total_seconds() > FROM_S for blocker in found.blockers
    )


def _gist(asked: list[Why]) -> object:
    """Return what makes a line worth reading again: another reason or attempt, not a turn that comes closer."""
    return tuple(
        (found.fetch, found.last_attempt, blocker.kind, None if blocker.kind == "rate" else blocker.until)
        for found in asked
        for blocker in found.blockers
    )


def _line(site: SiteProgress, asked: list[Why]) -> Iterator[str]:
    for found in asked:
        is_last = found is asked[0] and site.unfinished > 1
        yield f"fetch {found.fetch}, the last of {site.unfinished:,}:" if is_last else f"fetch {found.fetch}:"
        if found.last_attempt and not any(blocker.kind == "not due" for blocker in found.blockers):
            yield f" {printable(found.last_attempt)}."
        for blocker in found.blockers:
            yield f" {printable(blocker.text)}{_until(blocker, found)}"
            if blocker.ahead >= site.unfinished:
                yield " A higher --priority goes first."
        yield "" if found is asked[-1] else " "


def _until(blocker: FetchBlocker, found: Why) -> str:
    """Return for how long this will be in the way; the rate has said so."""
    if blocker.until is None or blocker.kind == "rate":
        return ""
    left = span(max(0.0, (blocker.until - found.now).total_seconds()))
    return f" The next attempt is due in {left}." if blocker.kind == "not due" else f" For another {left}."
