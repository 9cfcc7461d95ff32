"""The demo's live view: a row for each site, and the totals of fetches, unread numbers and e-mails below."""

from typing import Self

from django.template.defaultfilters import pluralize
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.figures import Emails, Unread
from demo.observer import SiteView, View
from demo.plan import Plan
from weir.workers.cli import terminal

GOOD, BAD, FIGURE, QUIET = "green", "bold red", "cyan", "bright_black"
COLUMNS_AFTER_THE_BAR = ("shortest gap", "of interval", "backlog", "clears in")
WIDE = 98  # columns: a terminal of this width has room for bars
BAR_WIDTH = 14
LINES_AROUND_ROWS = 11  # title, head and totals with the gaps between them, and the lines left free below
LINE_EVERY_S = 2.0


def frame(view: View, plan: Plan, width: int, height: int | None = None) -> RenderableType:
    """Return the picture for a terminal of this size; sites for which it has no room are counted."""
    shown = view.sites
    if height is not None and len(view.sites) > (room := max(2, height - LINES_AROUND_ROWS)):
        shown = view.sites[: room - 1]
    is_wide = width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2 if is_wide else 1, 0, 0))
    table.add_column("site", no_wrap=True)
    for name in ("allowed", "seen there", *([""] if is_wide else []), *COLUMNS_AFTER_THE_BAR):
        table.add_column(name, justify="right", no_wrap=True)
    for site_view in shown:
        table.add_row(*_row(site_view, is_wide=is_wide))
    if hidden := len(view.sites) - len(shown):
        table.add_row(Text(f"{hidden} more", style=QUIET))
    return Group(_title(view, plan, is_wide=is_wide), Text(), table, Text(), *_totals(view, is_wide=is_wide))


def _title(view: View, plan: Plan, *, is_wide: bool) -> RenderableType:
    elapsed_s = min(view.elapsed_s or 0.0, plan.duration_s)
    title = Text.assemble(
        ("Weir", "bold"),
        f"  {len(view.sites)} sites, each at its own pace",
        f"   {plan.fetchers} fetcher {'processes' if plan.fetchers > 1 else 'process'}",
        f"   {elapsed_s:.0f} of {plan.duration_s:g} s",
    )
    line = Table.grid(padding=(0, 3, 0, 0))
    line.add_row(title, *([_bar(elapsed_s / plan.duration_s)] if is_wide else []))
    return line


def _bar(share: float) -> ProgressBar:
    return ProgressBar(
        total=1.0, completed=share, width=BAR_WIDTH, complete_style=FIGURE, finished_style=FIGURE, style=QUIET
    )


def _row(view: SiteView, *, is_wide: bool) -> tuple[RenderableType, ...]:
    nothing = Text("-", style=QUIET)
    seen = gap = ratio = nothing
    used = 0.0
    if view.rate_seen is not None:
        seen = Text(f"{view.rate_seen:.2f}/s", style=FIGURE)
        used = view.rate_seen * view.site.interval_s
    if view.shortest_gap_s is not None:
        gap = Text(f"{view.shortest_gap_s * 1000:,.1f} ms")
        of_interval = view.shortest_gap_s / view.site.interval_s
        ratio = Text(f"{of_interval:.3f}", style=GOOD if of_interval >= 1 else BAD)
    backlog, clears = Text("0", style=QUIET), Text("clear", style=QUIET)
    if view.waiting:
        backlog, clears = Text(f"{view.waiting:,}"), Text(terminal.span(view.clears_in_s))
    bar = [_bar(used)] if is_wide else []
    return Text(view.site.host), Text(view.site.rate), seen, *bar, gap, ratio, backlog, clears


def _totals(view: View, *, is_wide: bool) -> tuple[RenderableType, ...]:
    between = "   " if is_wide else "  "
    unread, emails = unread_line(view.unread, between), emails_line(view.emails, between)
    if is_wide:
        unread.append(" from COUNT(*)")
        emails.append(f"{between}{workers_killed(view.emails.mailers_killed)}")
    return _fetches_line(view, between, is_wide=is_wide), unread, emails


def _fetches_line(view: View, between: str, *, is_wide: bool) -> RenderableType:
    totals = view.totals
    return Text.assemble(
        (f"{totals.fetched:,}", FIGURE),
        f" fetched{between}",
        (f"{totals.failed:,}", FIGURE),
        f" failed{between}",
        (f"{view.requests_per_s:,.0f}", FIGURE),
        f"{' requests' if is_wide else ''}/s{between}",
        (f"{view.early_starts:,}", BAD if view.early_starts else GOOD),
        f" early{between}late by ",
        (f"{totals.lateness_p50_ms:.1f} ms", FIGURE),
        " (p50), ",
        (f"{totals.lateness_p99_ms:.1f} ms", FIGURE),
        " (p99)",
    )


def unread_line(unread: Unread, between: str) -> Text:
    """Return what users did, how many rows flushes wrote for it, and how many unread numbers drifted."""
    return Text.assemble(
        (f"{unread.notified:,}", FIGURE),
        f" notified{between}",
        (f"{unread.marked_read:,}", FIGURE),
        f" read{between}",
        (f"{unread.unread_reads:,}", FIGURE),
        f" counts asked{between}",
        (f"{unread.unread_flushes:,}", FIGURE),
        f" flush{pluralize(unread.unread_flushes, 'es')}, ",
        (f"{unread.unread_rows_written:,}", FIGURE),
        f" rows{between}",
        (f"{unread.unread_drift:,}", BAD if unread.unread_drift else GOOD),
        " drift",
    )


def emails_line(emails: Emails, between: str) -> Text:
    """Return how many e-mails are in each state, and how many were received twice."""
    return Text.assemble(
        (f"{emails.shipped:,}", FIGURE),
        f" shipped{between}",
        (f"{emails.pending:,}", FIGURE),
        " pending, ",
        (f"{emails.emails_sent:,}", FIGURE),
        " sent, ",
        (f"{emails.emails_failed:,}", FIGURE),
        " failed, ",
        (f"{emails.emails_unknown:,}", FIGURE),
        f" unknown{between}",
        (f"{emails.emails_received_twice:,}", BAD if emails.emails_received_twice else GOOD),
        " received twice",
    )


def workers_killed(killed: int) -> str:
    """Return how many workers that send e-mails were killed, as the screen shows it."""
    return f"{killed:,} worker{pluralize(killed)} killed"


class LiveScreen:
    """A picture that is redrawn in place until the `with` block ends; its last state stays on the terminal."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self.view: View | None = None
        self._note = Text()
        self._invitation = Text()
        self._plan = plan
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._note = self._invitation = Text()
        self._redraw()
        self._live.stop()

    def note(self, text: str) -> None:
        """Write a line below the picture."""
        self._note = Text(text, style=QUIET)
        self._redraw()

    def invite(self, link: str, bell: str | None) -> None:
        """Write the links below the picture, each in one line that a terminal can open."""
        self._invitation = Text.assemble("See it in a browser: ", (link, FIGURE), no_wrap=True, overflow="ignore")
        if bell:
            self._invitation.append("\nand then its bell:    ").append(bell, FIGURE)

    def show(self, view: View) -> None:
        """Draw the state."""
        self.view, self._note = view, Text()
        self._redraw()

    def _redraw(self) -> None:
        parts: list[RenderableType] = [self._invitation, self._note]
        if self.view:
            parts[:0] = [frame(self.view, self._plan, *self._live.console.size)]
        self._live.update(Group(*parts), refresh=True)


class Lines:
    """A line every `LINE_EVERY_S`, for output that is not a terminal."""

    def __init__(self, console: Console) -> None:
        self.view: View | None = None
        self._console = console
        self._next_at_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Leave the output as it is."""

    def note(self, text: str) -> None:
        """Write a line."""
        self._console.print(text, soft_wrap=True)

    def invite(self, link: str, bell: str | None) -> None:
        """Write the sign-in link, which works once, within a minute, and the bell's address, which needs it."""
        self.note(f"See it in a browser: {link}{f' and then its bell: {bell}' if bell else ''}")

    def show(self, view: View) -> None:
        """Write the state in one line, unless the last such line is too recent."""
        self.view = view
        if (view.elapsed_s or 0.0) >= self._next_at_s:
            self._next_at_s += LINE_EVERY_S
            waiting = sum(site_view.waiting for site_view in view.sites)
            self.note(
                f"{view.elapsed_s:4.0f} s: {view.requests:,} requests, {view.requests_per_s:.0f}/s, "
                f"{view.early_starts} early, {view.totals.fetched:,} fetched, {view.totals.failed:,} failed, "
                f"{waiting:,} waiting; {unread_line(view.unread, ', ')}; "
                f"{emails_line(view.emails, ', ')}, {workers_killed(view.emails.mailers_killed)}"
            )
