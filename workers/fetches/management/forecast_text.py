"""Texts of a forecast, for people and for machines."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from weir.workers.cli import terminal
from weir.workers.fetches.reports.forecast import Forecast

FARTHEST_S = 100 * 366 * terminal.DAY  # seconds: a time that is farther away is shown without a date
UNKNOWN = "When anything starts is unknown while it does not answer."
WHEN = "%Y-%m-%d %H:%M:%S UTC"


def as_text(expected: Forecast, site: str) -> str:
    """Return the forecast in a few sentences."""
    name = terminal.printable(expected.site if expected.site == site else f"{expected.site} (which covers {site})")
    parts = [f"if it had {expected.rate}" if expected.is_supposed else expected.rate]
    if expected.is_new:
        parts.append("no site yet")
    if expected.max_concurrency is not None:
        parts.append(f"at most {expected.max_concurrency} at once")
    if expected.state != "running":
        error = f" ({terminal.printable(expected.backoff_error)})" if expected.backoff_error else ""
        parts.append(f"{expected.state}{error}{_held_for(expected)}")
    return " ".join([f"{name}: {', '.join(parts)}, {expected.queued:,} queued.", *sentences(expected)])


def _held_for(expected: Forecast) -> str:
    if expected.held_for_s == math.inf:
        return " until resumed"
    return f" for {terminal.span(expected.held_for_s)}" if expected.held_for_s else ""


def sentences(expected: Forecast) -> Iterator[str]:
    """Yield sentences: when a new request would start, when the backlog clears, and what delays them."""
    if expected.starts_in_s == math.inf:
        yield "Nothing starts before." if expected.held_for_s == math.inf else UNKNOWN
        return
    start = (
        f"A new request would start in {terminal.span(expected.starts_in_s)}{_at(expected.now, expected.starts_in_s)}"
    )
    if expected.added or expected.queued > expected.not_due:
        more = f"with {expected.added:,} more, " if expected.added else ""
        cleared = f"{terminal.span(expected.clears_in_s)}{_at(expected.now, expected.clears_in_s)}"
        yield f"{start}; {more}the backlog would be cleared in {cleared}."
    else:
        yield f"{start}."
    if expected.not_due:
        yield f"Not due until then, and not counted: {expected.not_due:,}."
    if expected.robots_held_for_s:
        again = f"{terminal.span(expected.robots_held_for_s)}{_at(expected.now, expected.robots_held_for_s)}"
        error = terminal.printable(expected.robots_error)
        yield f"robots.txt cannot be read ({error}): nothing is fetched before it is asked for again, in {again}."
    elif expected.asks_robots:
        yield "It waits for the site's robots.txt, which is asked for first."
    if expected.max_concurrency is not None:
        yield "All of this is later where the site takes long to answer."


def _at(now: datetime, seconds: float) -> str:
    """Return the time that is so many seconds from now, in brackets, with its date if needed; "" for the far future."""
    if seconds > FARTHEST_S:
        return ""
    form = "%H:%M:%S UTC" if seconds < terminal.DAY else WHEN
    return f" (at {now.astimezone(UTC) + timedelta(seconds=seconds):{form}})"


def as_data(expected: Forecast) -> dict[str, object]:
    """Return the forecast for machines."""
    seconds = {name: getattr(expected, name) for name in ("held_for_s", "starts_in_s", "clears_in_s")}
    return {
        "site": expected.site,
        "is_new": expected.is_new,
        "rate": expected.rate,
        "is_supposed": expected.is_supposed,
        "max_concurrency": expected.max_concurrency,
        "state": expected.state,
        "is_silent": expected.is_silent,
        "unreachable": expected.backoff_error or None,
        "queued": expected.queued,
        "not_due": expected.not_due,
        "ahead": expected.ahead,
        "asks_robots": expected.asks_robots,
        "robots_held_for_s": round(expected.robots_held_for_s, 3),
        "robots_error": expected.robots_error or None,
        "added": expected.added,
        **{name: None if math.isinf(value) else round(value, 3) for name, value in seconds.items()},
        "now": expected.now.isoformat(),
    }
