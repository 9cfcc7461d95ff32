"""The screen of `manage.py fetch` while it waits: a bar for all fetches, and a line for each of the busiest sites."""

import math
import time
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from weir.workers.cli import terminal
from weir.workers.fetches.management.turns import STOPPABLE, Turns
from weir.workers.fetches.reports.progress import Progress, SiteProgress

BAR_WIDTH = 60
SITE_BAR_WIDTH = 20


class Screen:
    """A view on stderr that is redrawn in place, and erased at the end. Shows nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._console = terminal.console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, *parts: Text | Table) -> None:
        """Show these parts below each other, in place of what was shown before."""
        if self._live.is_started:
            self._live.update(Group(*parts), refresh=True)


def queueing(queued: int) -> Text:
    """Return the view of fetches being queued."""
    return Text(f"Queueing: {queued:,} fetches")


def watching(seen: Progress, turns: Turns, *, elapsed_s: float) -> tuple[Text | Table, ...]:
    """Return the view of fetches that have not all ended."""
    ended = seen.done + seen.failed + seen.cancelled
    total = ended + seen.unfinished
    text = Text(f"{ended:,} of {total:,} ended  ", "bold")
    text.append(f"{ended / max(elapsed_s, 0.001):,.1f}/s  {terminal.span(elapsed_s)}", "not bold")
    if seen.failed:
        text.append(f"  {seen.failed:,} failed", "red")
    bar = Table.grid()  # a bar by itself does not end its line
    bar.add_row(ProgressBar(total=total, completed=ended, width=BAR_WIDTH))
    if not seen.busiest:
        return text, bar
    lines = turns.lines or filter(None, map(_waits, seen.busiest))
    return (
        text,
        bar,
        Text(),
        _sites(seen, turns),
        _others(seen),
        Text("\n".join(lines), "yellow"),
        Text(STOPPABLE, "dim"),
    )


def _sites(seen: Progress, turns: Turns) -> Table:
    table = terminal.table("site", "rate", "ended", "", "clears in", numbers=("rate", "ended", "clears in"))
    for site in seen.busiest:
        total = site.ended + site.unfinished
        table.add_row(
            terminal.printable(site.site),
            site.rate,
            f"{site.ended:,}/{total:,}",
            ProgressBar(total=total, completed=site.ended, width=SITE_BAR_WIDTH),
            _clears_in(site, turns.clear_at.get(site.site)),
        )
    return table


def _clears_in(site: SiteProgress, clear_at: float | None) -> Text:
    """Return in what time the site's fetches will have started; if they are kept waiting, what keeps them.

    `clear_at` is when that will be, by time.monotonic(). If it is not given, the fetches of others at the site are not
    known, and the rate says only the least that it takes.
    """
    if site.state != "busy":
        return Text(site.state, "yellow")
    if site.error:
        return Text("tries again", "yellow")
    if clear_at is None:
        return Text(f"at least {terminal.span(site.unfinished * site.interval.total_seconds())}")
    return Text(terminal.span(max(0.0, clear_at - time.monotonic())) if clear_at < math.inf else "not known")


def _waits(site: SiteProgress) -> str:
    """Return a line that says why the site's fetches wait; "" if nothing keeps them waiting."""
    if site.error:
        return f"{terminal.printable(site.site)}: {terminal.printable(site.error)}"
    return f"{terminal.printable(site.site)} is {site.state}" if site.state != "busy" else ""


def _others(seen: Progress) -> Text:
    others = seen.unfinished_sites - len(seen.busiest)
    return Text(f"and {others:,} more sites with fewer" if others else "", "dim")
